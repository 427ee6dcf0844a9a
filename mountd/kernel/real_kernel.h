// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cerrno>

#include "mountd/kernel/kernel.h"

namespace mountd::exec {

// Returns errno if a system call without another result has failed.
inline Sys<void> Done(int rc) {
  if (rc < 0) {
    return errno;
  }
  return {};
}

// Makes the system calls on the calling thread. Has no state other than the
// members below. Runs on one thread, because NewNetNamespace leaves and
// re-enters the thread's network namespace.
class RealKernel final : public Kernel {
 public:
  // `asker` is the socket from which the plans come; -1: there is none.
  explicit RealKernel(int asker = -1) : asker_(asker) {}

  Sys<UniqueFd> Open(int dir, const std::string& path, int flags,
                     std::uint64_t resolve) override;
  Sys<FileFacts> Stat(int dir, const std::string& name) override;
  Sys<FileFacts> StatLinked(int dir, const std::string& name) override;
  Sys<std::uint64_t> LinkedMountId(int dir, const std::string& name) override;
  Sys<void> MakeDirectory(int dir, const std::string& name,
                          mode_t mode) override;
  Sys<void> MakeFile(int dir, const std::string& name, mode_t mode) override;
  Sys<void> MakeLink(const std::string& text, int dir,
                     const std::string& name) override;
  Sys<std::string> ReadLink(int dir, const std::string& name) override;
  Sys<void> RemoveFile(int dir, const std::string& name) override;
  Sys<void> RemoveDirectory(int dir, const std::string& name) override;
  Sys<void> Rename(int dir, const std::string& name, int new_dir,
                   const std::string& new_name) override;
  Sys<void> SetOwner(int fd, uid_t uid, gid_t gid) override;
  Sys<void> SetMode(int fd, mode_t mode) override;
  Sys<std::string> ReadAcl(int fd) override;
  Sys<void> SetAcl(int fd, std::string_view acl) override;
  Sys<std::vector<std::string>> List(int dir, std::size_t limit) override;
  Sys<std::vector<OrderedName>> ListAfter(int dir, std::uint64_t after,
                                          std::size_t limit) override;
  Sys<void> Lock(int fd) override;
  Sys<std::string> ReadFile(int dir, const std::string& name,
                            std::size_t limit) override;
  Sys<void> Write(int fd, std::string_view text) override;
  Sys<void> WriteAs(int dir, const std::string& name, uid_t uid,
                    std::string_view text) override;
  Sys<bool> IsMemory(int fd) override;
  Sys<std::string> ReadMemory(int fd, std::size_t limit) override;
  Sys<std::string> ReadSetting(const char* path) override;
  Sys<void> WriteSetting(const char* path, std::string_view text) override;

  Sys<UniqueFd> OpenKernfs(int fs, std::uint64_t id) override;
  Sys<bool> HasEnded(int pidfd) override;

  Sys<UniqueFd> OpenFilesystem(const char* type) override;
  Sys<void> ConfigureFilesystem(int fs, const char* key,
                                const char* value) override;
  Sys<void> CreateFilesystem(int fs) override;
  Sys<UniqueFd> MountFilesystem(int fs, unsigned attributes) override;
  Sys<UniqueFd> CloneTree(int fd, bool recursive) override;
  Sys<UniqueFd> LockTree(int tree, std::chrono::milliseconds limit) override;
  Sys<void> SetMount(int tree, bool recursive,
                     const MountChange& change) override;
  Sys<UniqueFd> NewUserNamespace(const std::string& uid_map,
                                 const std::string& gid_map) override;
  Sys<void> AttachTree(int tree, int target) override;
  Sys<void> AttachBeneath(int tree, int target) override;
  Sys<void> JoinGroup(int from, int fd) override;
  Sys<void> Unmount(int parent, const std::string& name, int flags) override;
  bool CanMountBeneath() override;
  Sys<MountFacts> MountById(std::uint64_t id) override;
  Sys<std::vector<std::uint64_t>> MountsBelow(std::uint64_t id,
                                              std::uint64_t after) override;
  Sys<std::uint64_t> MountNamespaceOf(int process) override;
  Sys<std::vector<MountNamespaceName>> MountNamespaces() override;
  Sys<std::vector<MountFacts>> MountsOfNamespace(std::uint64_t id) override;

  Sys<std::uint8_t> RunChild(const std::function<int()>& body,
                             std::span<const int> kept,
                             std::chrono::milliseconds limit) override;
  Sys<void> NewMountNamespace() override;
  Sys<void> EnterMountNamespace(int mount_namespace) override;
  Sys<std::uint64_t> OwnerOf(int name_space) override;
  Sys<uid_t> OwnerUidOf(int name_space) override;
  Sys<std::uint64_t> NamespaceTypeOf(int name_space) override;

  Sys<UniqueFd> WatchMounts(int mount_namespace) override;
  Sys<UniqueFd> MakeMemory(std::span<const std::byte> content) override;
  Sys<ProbeOutcome> ProbeFilesystem(
      int fd, std::chrono::milliseconds deadline) override;

  Sys<UniqueFd> ConnectUnix(int file) override;
  Sys<ucred> PeerOf(int socket) override;
  Sys<UniqueFd> PeerProcess(int socket) override;

  Sys<NetNamespace> NewNetNamespace() override;
  Sys<UniqueFd> OpenNetlinkIn(int netns, int protocol) override;
  Sys<UniqueFd> OpenNetlink(int protocol) override;
  Sys<void> Subscribe(int netlink, unsigned group) override;
  Sys<void> Send(int socket, std::span<const std::byte> bytes) override;
  Sys<std::size_t> Receive(int socket, std::span<std::byte> into) override;
  Sys<void> RunNft(const std::string& commands) override;

 private:
  const int asker_;
  UniqueFd bare_mounts_;              // a mount namespace; see LockTree
  UniqueFd tree_owner_;               // a user namespace; see LockTree
  std::vector<pid_t> lost_children_;  // killed, and not ended yet
};

}  // namespace mountd::exec
