// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <fcntl.h>
#include <linux/netlink.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstddef>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mountd/base/steps.h"
#include "mountd/kernel/kernel.h"
#include "tests/support/calls_of_child.h"

namespace mountd::exec {

// Errnos that any call may fail with, because they are about a device, memory
// or a security module. None of them says anything false about the call's
// object.
inline constexpr int kErrorsOfAnyCall[] = {EIO, ENOMEM, EACCES};
// The errnos above, and 0 for the end of the executor.
inline constexpr int kEndOrErrorsOfAnyCall[] = {0, EIO, ENOMEM, EACCES};

// Passes every call on to another kernel and records its name. Fails the k-th
// call, or all from the k-th on, with an errno and without making it. With
// `steps` it records nothing, and each call is a step of `steps`.
class InjectingKernel final : public Kernel {
 public:
  explicit InjectingKernel(Kernel& kernel, Steps* steps = nullptr)
      : kernel_(kernel), steps_(steps) {}

  // Fails the k-th call, counted from 1 and from now on; 0 fails none.
  void FailAt(std::size_t k, int err) {
    if (fail_at_ != 0 && calls_.size() >= fail_at_) {
      failed_.insert(calls_[fail_at_ - 1]);
    }
    fail_at_ = k;
    error_ = err;
    dead_ = false;
    calls_.clear();
  }
  // Fails the k-th call and all after it, so nothing is undone, as if the
  // process was killed there.
  void DieAt(std::size_t k) {
    FailAt(k, EIO);
    dead_ = true;
  }
  // Dies at the k-th call after the current one.
  void DieAfter(std::size_t k) {
    fail_at_ = calls_.size() + k;
    error_ = EIO;
    dead_ = true;
  }
  // Dies at the k-th call if `err` is 0, otherwise fails it.
  void FailOrDieAt(std::size_t k, int err) {
    err == 0 ? DieAt(k) : FailAt(k, err);
  }
  // Calls `hook` before each call, with its name.
  void Before(std::function<void(const std::string&)> hook) {
    hook_ = std::move(hook);
  }
  const std::vector<std::string>& calls() const { return calls_; }
  // Returns the names of the calls that have failed before the last FailAt.
  const std::set<std::string>& failed() const { return failed_; }

  // Answers from now on as a kernel before 6.8: mount ids are used again, and
  // there is neither statmount nor listmount.
  void HideUniqueMountIds() { hide_unique_ids_ = true; }
  // Answers as a kernel before 6.11: mount namespaces have no ids.
  void HideMountNamespaces() { hide_namespaces_ = true; }
  // Answers as a kernel before 6.5: nothing can be mounted beneath a mount.
  void HideMountBeneath() { hide_mount_beneath_ = true; }
  // Answers as a kernel before 6.15: mounts have no events.
  void HideMountEvents() { hide_mount_events_ = true; }
  // Answers as a kernel without inet_diag, or one that hides /proc/net's
  // tables.
  void HideSocketDiag(bool hidden = true) { hide_socket_diag_ = hidden; }
  void HideSocketTables(bool hidden = true) { hide_socket_tables_ = hidden; }

  // Calls `hook` once, after the mounts of this mount namespace were listed.
  void AfterListing(std::uint64_t mount_namespace, std::function<void()> hook) {
    listed_namespace_ = mount_namespace;
    after_listing_ = std::move(hook);
  }

  Sys<UniqueFd> Open(int dir, const std::string& path, int flags,
                     std::uint64_t resolve) override {
    return Pass<UniqueFd>(
        "Open", [&] { return kernel_.Open(dir, path, flags, resolve); });
  }
  Sys<FileFacts> Stat(int dir, const std::string& name) override {
    return Pass<FileFacts>("Stat", [&]() -> Sys<FileFacts> {
      Sys<FileFacts> facts = kernel_.Stat(dir, name);
      struct statx stx = {};
      const int flags = AT_STATX_DONT_SYNC | AT_SYMLINK_NOFOLLOW |
                        (name.empty() ? AT_EMPTY_PATH : 0);
      if (facts && hide_unique_ids_ &&
          ::statx(dir, name.c_str(), flags, STATX_MNT_ID, &stx) == 0) {
        facts->mount_id = stx.stx_mnt_id;
        facts->mount_id_is_unique = false;
      }
      return facts;
    });
  }
  Sys<FileFacts> StatLinked(int dir, const std::string& name) override {
    return Pass<FileFacts>("StatLinked",
                           [&] { return kernel_.StatLinked(dir, name); });
  }
  Sys<std::uint64_t> LinkedMountId(int dir, const std::string& name) override {
    return Pass<std::uint64_t>(
        "LinkedMountId", [&] { return kernel_.LinkedMountId(dir, name); });
  }
  Sys<void> MakeDirectory(int dir, const std::string& name,
                          mode_t mode) override {
    return Pass<void>("MakeDirectory",
                      [&] { return kernel_.MakeDirectory(dir, name, mode); });
  }
  Sys<void> MakeFile(int dir, const std::string& name, mode_t mode) override {
    return Pass<void>("MakeFile",
                      [&] { return kernel_.MakeFile(dir, name, mode); });
  }
  Sys<void> MakeLink(const std::string& text, int dir,
                     const std::string& name) override {
    return Pass<void>("MakeLink",
                      [&] { return kernel_.MakeLink(text, dir, name); });
  }
  Sys<std::string> ReadLink(int dir, const std::string& name) override {
    return Pass<std::string>("ReadLink",
                             [&] { return kernel_.ReadLink(dir, name); });
  }
  Sys<void> RemoveFile(int dir, const std::string& name) override {
    return Pass<void>("RemoveFile",
                      [&] { return kernel_.RemoveFile(dir, name); });
  }
  Sys<void> RemoveDirectory(int dir, const std::string& name) override {
    return Pass<void>("RemoveDirectory",
                      [&] { return kernel_.RemoveDirectory(dir, name); });
  }
  Sys<void> Rename(int dir, const std::string& name, int new_dir,
                   const std::string& new_name) override {
    return Pass<void>(
        "Rename", [&] { return kernel_.Rename(dir, name, new_dir, new_name); });
  }
  Sys<void> SetOwner(int fd, uid_t uid, gid_t gid) override {
    return Pass<void>("SetOwner",
                      [&] { return kernel_.SetOwner(fd, uid, gid); });
  }
  Sys<void> SetMode(int fd, mode_t mode) override {
    return Pass<void>("SetMode", [&] { return kernel_.SetMode(fd, mode); });
  }
  Sys<std::string> ReadAcl(int fd) override {
    return Pass<std::string>("ReadAcl", [&] { return kernel_.ReadAcl(fd); });
  }
  Sys<void> SetAcl(int fd, std::string_view acl) override {
    return Pass<void>("SetAcl", [&] { return kernel_.SetAcl(fd, acl); });
  }
  Sys<std::vector<std::string>> List(int dir, std::size_t limit) override {
    return Pass<std::vector<std::string>>(
        "List", [&] { return kernel_.List(dir, limit); });
  }
  Sys<std::vector<OrderedName>> ListAfter(int dir, std::uint64_t after,
                                          std::size_t limit) override {
    return Pass<std::vector<OrderedName>>(
        "ListAfter", [&] { return kernel_.ListAfter(dir, after, limit); });
  }
  Sys<void> Lock(int fd) override {
    return Pass<void>("Lock", [&] { return kernel_.Lock(fd); });
  }
  Sys<std::string> ReadFile(int dir, const std::string& name,
                            std::size_t limit) override {
    return Pass<std::string>("ReadFile", [&]() -> Sys<std::string> {
      const bool table = name.starts_with("tcp") || name.starts_with("udp");
      if (hide_socket_tables_ && table) {
        return EACCES;
      }
      return kernel_.ReadFile(dir, name, limit);
    });
  }
  Sys<bool> IsMemory(int fd) override {
    return Pass<bool>("IsMemory", [&] { return kernel_.IsMemory(fd); });
  }
  Sys<std::string> ReadMemory(int fd, std::size_t limit) override {
    return Pass<std::string>("ReadMemory",
                             [&] { return kernel_.ReadMemory(fd, limit); });
  }
  Sys<void> Write(int fd, std::string_view text) override {
    return Pass<void>("Write", [&] { return kernel_.Write(fd, text); });
  }
  Sys<std::string> ReadSetting(const char* path) override {
    return Pass<std::string>("ReadSetting",
                             [&] { return kernel_.ReadSetting(path); });
  }
  Sys<void> WriteSetting(const char* path, std::string_view text) override {
    return Pass<void>("WriteSetting",
                      [&] { return kernel_.WriteSetting(path, text); });
  }

  Sys<UniqueFd> OpenKernfs(int fs, std::uint64_t id) override {
    return Pass<UniqueFd>("OpenKernfs",
                          [&] { return kernel_.OpenKernfs(fs, id); });
  }
  Sys<bool> HasEnded(int pidfd) override {
    return Pass<bool>("HasEnded", [&] { return kernel_.HasEnded(pidfd); });
  }

  Sys<UniqueFd> OpenFilesystem(const char* type) override {
    return Pass<UniqueFd>("OpenFilesystem",
                          [&] { return kernel_.OpenFilesystem(type); });
  }
  Sys<void> ConfigureFilesystem(int fs, const char* key,
                                const char* value) override {
    return Pass<void>("ConfigureFilesystem", [&] {
      return kernel_.ConfigureFilesystem(fs, key, value);
    });
  }
  Sys<void> CreateFilesystem(int fs) override {
    return Pass<void>("CreateFilesystem",
                      [&] { return kernel_.CreateFilesystem(fs); });
  }
  Sys<UniqueFd> MountFilesystem(int fs, unsigned attributes) override {
    return Pass<UniqueFd>("MountFilesystem", [&] {
      return kernel_.MountFilesystem(fs, attributes);
    });
  }
  Sys<UniqueFd> CloneTree(int fd, bool recursive) override {
    return Pass<UniqueFd>("CloneTree",
                          [&] { return kernel_.CloneTree(fd, recursive); });
  }
  Sys<void> SetMount(int tree, bool recursive,
                     const MountChange& change) override {
    return Pass<void>(
        "SetMount", [&] { return kernel_.SetMount(tree, recursive, change); });
  }
  Sys<UniqueFd> NewUserNamespace(const std::string& map) override {
    return Pass<UniqueFd>("NewUserNamespace",
                          [&] { return kernel_.NewUserNamespace(map); });
  }
  Sys<void> AttachTree(int tree, int target) override {
    return Pass<void>("AttachTree",
                      [&] { return kernel_.AttachTree(tree, target); });
  }
  Sys<void> AttachBeneath(int tree, int target) override {
    return Pass<void>("AttachBeneath",
                      [&] { return kernel_.AttachBeneath(tree, target); });
  }
  Sys<void> JoinGroup(int from, int fd) override {
    return Pass<void>("JoinGroup", [&] { return kernel_.JoinGroup(from, fd); });
  }
  Sys<void> Unmount(int parent, const std::string& name, int flags) override {
    return Pass<void>("Unmount",
                      [&] { return kernel_.Unmount(parent, name, flags); });
  }
  bool CanMountBeneath() override {
    return !hide_mount_beneath_ && kernel_.CanMountBeneath();
  }
  Sys<MountFacts> MountById(std::uint64_t id) override {
    return Pass<MountFacts>("MountById", [&] {
      return hide_unique_ids_ ? Sys<MountFacts>(ENOSYS) : kernel_.MountById(id);
    });
  }
  Sys<std::vector<std::uint64_t>> MountsBelow(std::uint64_t id,
                                              std::uint64_t after) override {
    listings_ += after == 0 ? 1 : 0;
    return Pass<std::vector<std::uint64_t>>(
        "MountsBelow", [&] { return kernel_.MountsBelow(id, after); });
  }
  Sys<std::uint64_t> MountNamespaceOf(int process) override {
    return Pass<std::uint64_t>("MountNamespaceOf", [&] {
      return hide_namespaces_ ? Sys<std::uint64_t>(ENOTTY)
                              : kernel_.MountNamespaceOf(process);
    });
  }
  Sys<std::vector<MountNamespaceName>> MountNamespaces() override {
    return Pass<std::vector<MountNamespaceName>>("MountNamespaces", [&] {
      return hide_namespaces_ ? Sys<std::vector<MountNamespaceName>>(ENOTTY)
                              : kernel_.MountNamespaces();
    });
  }
  Sys<std::vector<MountFacts>> MountsOfNamespace(std::uint64_t id) override {
    auto mounts = Pass<std::vector<MountFacts>>(
        "MountsOfNamespace", [&] { return kernel_.MountsOfNamespace(id); });
    if (after_listing_ && id == listed_namespace_) {
      std::exchange(after_listing_, nullptr)();
    }
    return mounts;
  }
  // Returns how often MountsBelow was called for old mounts, too.
  int listings() const { return listings_; }

  // Records and fails the child's calls as if they were this process's.
  Sys<std::uint8_t> RunChild(const std::function<int()>& body,
                             std::span<const int> kept,
                             std::chrono::milliseconds limit) override {
    return Pass<std::uint8_t>("RunChild", [&] {
      CallsOfChild made;
      const std::size_t before = calls_.size();
      const Sys<std::uint8_t> status = kernel_.RunChild(
          [&] {
            const int result = body();
            made.Write(std::span(calls_).subspan(before));
            return result;
          },
          kept, limit);
      for (std::string& call : made.Read()) {
        calls_.push_back(std::move(call));
      }
      return status;
    });
  }
  Sys<void> NewMountNamespace() override {
    return Pass<void>("NewMountNamespace",
                      [&] { return kernel_.NewMountNamespace(); });
  }
  Sys<void> EnterMountNamespace(int mount_namespace) override {
    return Pass<void>("EnterMountNamespace", [&] {
      return kernel_.EnterMountNamespace(mount_namespace);
    });
  }
  Sys<std::uint64_t> OwnerOf(int name_space) override {
    return Pass<std::uint64_t>("OwnerOf",
                               [&] { return kernel_.OwnerOf(name_space); });
  }
  Sys<uid_t> OwnerUidOf(int name_space) override {
    return Pass<uid_t>("OwnerUidOf",
                       [&] { return kernel_.OwnerUidOf(name_space); });
  }
  Sys<std::uint64_t> NamespaceTypeOf(int name_space) override {
    return Pass<std::uint64_t>(
        "NamespaceTypeOf", [&] { return kernel_.NamespaceTypeOf(name_space); });
  }

  Sys<UniqueFd> WatchMounts(int mount_namespace) override {
    return Pass<UniqueFd>("WatchMounts", [&]() -> Sys<UniqueFd> {
      if (hide_mount_events_) {
        return EINVAL;
      }
      return kernel_.WatchMounts(mount_namespace);
    });
  }
  Sys<UniqueFd> MakeMemory(std::span<const std::byte> content) override {
    return Pass<UniqueFd>("MakeMemory",
                          [&] { return kernel_.MakeMemory(content); });
  }
  Sys<ProbeOutcome> ProbeFilesystem(
      int fd, std::chrono::milliseconds deadline) override {
    return Pass<ProbeOutcome>("ProbeFilesystem", [&] {
      return kernel_.ProbeFilesystem(fd, deadline);
    });
  }

  Sys<UniqueFd> ConnectUnix(int file) override {
    return Pass<UniqueFd>("ConnectUnix",
                          [&] { return kernel_.ConnectUnix(file); });
  }
  Sys<ucred> PeerOf(int socket) override {
    return Pass<ucred>("PeerOf", [&] { return kernel_.PeerOf(socket); });
  }
  Sys<UniqueFd> PeerProcess(int socket) override {
    return Pass<UniqueFd>("PeerProcess",
                          [&] { return kernel_.PeerProcess(socket); });
  }

  Sys<NetNamespace> NewNetNamespace() override {
    return Pass<NetNamespace>("NewNetNamespace",
                              [&] { return kernel_.NewNetNamespace(); });
  }
  Sys<UniqueFd> OpenNetlinkIn(int netns, int protocol) override {
    return Pass<UniqueFd>("OpenNetlinkIn", [&] {
      return kernel_.OpenNetlinkIn(netns, protocol);
    });
  }
  Sys<void> Subscribe(int netlink, unsigned group) override {
    return Pass<void>("Subscribe",
                      [&] { return kernel_.Subscribe(netlink, group); });
  }
  Sys<UniqueFd> OpenNetlink(int protocol) override {
    return Pass<UniqueFd>("OpenNetlink", [&]() -> Sys<UniqueFd> {
      if (hide_socket_diag_ && protocol == NETLINK_SOCK_DIAG) {
        return EPROTONOSUPPORT;
      }
      return kernel_.OpenNetlink(protocol);
    });
  }
  Sys<void> Send(int socket, std::span<const std::byte> bytes) override {
    return Pass<void>("Send", [&] { return kernel_.Send(socket, bytes); });
  }
  Sys<std::size_t> Receive(int socket, std::span<std::byte> into) override {
    return Pass<std::size_t>("Receive",
                             [&] { return kernel_.Receive(socket, into); });
  }
  Sys<void> RunNft(const std::string& commands) override {
    return Pass<void>("RunNft", [&] { return kernel_.RunNft(commands); });
  }

 private:
  template <typename T, typename Call>
  Sys<T> Pass(const char* name, const Call& call) {
    if (steps_ != nullptr) {
      if (const int error = steps_->Begin(name); error != 0) {
        return Sys<T>(error);
      }
      Sys<T> outcome = call();
      steps_->End();
      return outcome;
    }
    calls_.emplace_back(name);
    if (hook_) {
      hook_(name);
    }
    if (calls_.size() == fail_at_ || (dead_ && calls_.size() > fail_at_)) {
      return Sys<T>(error_);
    }
    return call();
  }

  Kernel& kernel_;
  Steps* const steps_;
  std::size_t fail_at_ = 0;
  int error_ = 0;
  bool dead_ = false;
  std::function<void(const std::string&)> hook_;
  std::uint64_t listed_namespace_ = 0;
  std::function<void()> after_listing_;
  int listings_ = 0;
  bool hide_unique_ids_ = false;
  bool hide_namespaces_ = false;
  bool hide_mount_beneath_ = false;
  bool hide_mount_events_ = false;
  bool hide_socket_diag_ = false;
  bool hide_socket_tables_ = false;
  std::vector<std::string> calls_;
  std::set<std::string> failed_;
};

}  // namespace mountd::exec
