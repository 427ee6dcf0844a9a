// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "mountd/config/config.h"
#include "mountd/plan/message.h"
#include "tests/fuzz/exec_netlink.h"
#include "tests/fuzz/exec_world.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/refusing_kernel.h"

namespace mountd::fuzz {

// Models a kernel with a world in memory that lies now and then: it fails a
// call, reports other facts, or makes changes as another process would. Records
// the object of each fd that it gave out. Ends the process if a call exceeds
// what SECURITY.md permits an executor, or what the plan is about.
class ExecKernel final : public RefusingKernel {
 public:
  // Takes the lies from the input, a byte each: 0 is the truth. When the input
  // is used up there are no more lies.
  ExecKernel(const Config& config, Input lies);
  ~ExecKernel() override;

  // Sets the plan that is carried out; null for none.
  void Begin(const exec::Request* plan);
  // Returns an fd as it comes with a plan: of a directory, a process, a
  // namespace, or memory, as `kind` says.
  UniqueFd Passed(std::uint8_t kind);
  // Makes changes as plugins, tasks and other processes do between plans.
  void Others(std::uint8_t what);
  // Records that the fd came with the plan that has begun.
  void Took(int fd);
  // Ends the process unless the answer may have this fd.
  void CheckAnswer(int fd);
  bool lied() const { return lied_; }
  std::string Told() const { return world_.Told() + netlink_.Told(); }
  // Ends the process if an fd that it gave out is still open.
  void CheckAllClosed() const;

  exec::Sys<UniqueFd> Open(int dir, const std::string& path, int flags,
                           std::uint64_t resolve) override;
  exec::Sys<exec::FileFacts> Stat(int dir, const std::string& name) override;
  exec::Sys<exec::FileFacts> StatLinked(int dir,
                                        const std::string& name) override;
  exec::Sys<std::uint64_t> LinkedMountId(int dir,
                                         const std::string& name) override;
  exec::Sys<void> MakeDirectory(int dir, const std::string& name,
                                mode_t mode) override;
  exec::Sys<void> MakeFile(int dir, const std::string& name,
                           mode_t mode) override;
  exec::Sys<void> MakeLink(const std::string& text, int dir,
                           const std::string& name) override;
  exec::Sys<std::string> ReadLink(int dir, const std::string& name) override;
  exec::Sys<void> RemoveFile(int dir, const std::string& name) override;
  exec::Sys<void> RemoveDirectory(int dir, const std::string& name) override;
  exec::Sys<void> Rename(int dir, const std::string& name, int new_dir,
                         const std::string& new_name) override;
  exec::Sys<void> SetOwner(int fd, uid_t uid, gid_t gid) override;
  exec::Sys<void> SetMode(int fd, mode_t mode) override;
  exec::Sys<std::string> ReadAcl(int fd) override;
  exec::Sys<void> SetAcl(int fd, std::string_view acl) override;
  exec::Sys<std::vector<std::string>> List(int dir, std::size_t limit) override;
  exec::Sys<std::vector<exec::OrderedName>> ListAfter(
      int dir, std::uint64_t after, std::size_t limit) override;
  exec::Sys<void> Lock(int fd) override;
  exec::Sys<std::string> ReadFile(int dir, const std::string& name,
                                  std::size_t limit) override;
  exec::Sys<void> Write(int fd, std::string_view text) override;
  exec::Sys<void> WriteAs(int dir, const std::string& name, uid_t uid,
                          std::string_view text) override;
  exec::Sys<bool> IsMemory(int fd) override;
  exec::Sys<std::string> ReadMemory(int fd, std::size_t limit) override;
  exec::Sys<std::string> ReadSetting(const char* path) override;
  exec::Sys<void> WriteSetting(const char* path,
                               std::string_view text) override;
  exec::Sys<UniqueFd> OpenKernfs(int fs, std::uint64_t id) override;
  exec::Sys<bool> HasEnded(int pidfd) override;
  exec::Sys<UniqueFd> OpenFilesystem(const char* type) override;
  exec::Sys<void> ConfigureFilesystem(int fs, const char* key,
                                      const char* value) override;
  exec::Sys<void> CreateFilesystem(int fs) override;
  exec::Sys<UniqueFd> MountFilesystem(int fs, unsigned attributes) override;
  exec::Sys<UniqueFd> CloneTree(int fd, bool recursive) override;
  exec::Sys<UniqueFd> LockTree(int tree,
                               std::chrono::milliseconds limit) override;
  exec::Sys<void> SetMount(int tree, bool recursive,
                           const exec::MountChange& change) override;
  exec::Sys<UniqueFd> NewUserNamespace(const std::string& uid_map,
                                       const std::string& gid_map) override;
  exec::Sys<void> AttachTree(int tree, int target) override;
  exec::Sys<void> AttachBeneath(int tree, int target) override;
  exec::Sys<void> JoinGroup(int from, int fd) override;
  exec::Sys<void> Unmount(int parent, const std::string& name,
                          int flags) override;
  bool CanMountBeneath() override;
  exec::Sys<exec::MountFacts> MountById(std::uint64_t id) override;
  exec::Sys<std::vector<std::uint64_t>> MountsBelow(
      std::uint64_t id, std::uint64_t after) override;
  exec::Sys<std::uint8_t> RunChild(const std::function<int()>& body,
                                   std::span<const int> kept,
                                   std::chrono::milliseconds limit) override;
  exec::Sys<void> NewMountNamespace() override;
  exec::Sys<void> EnterMountNamespace(int mount_namespace) override;
  exec::Sys<std::uint64_t> OwnerOf(int name_space) override;
  exec::Sys<uid_t> OwnerUidOf(int name_space) override;
  exec::Sys<std::uint64_t> NamespaceTypeOf(int name_space) override;
  exec::Sys<UniqueFd> WatchMounts(int mount_namespace) override;
  exec::Sys<UniqueFd> MakeMemory(std::span<const std::byte> content) override;
  exec::Sys<exec::ProbeOutcome> ProbeFilesystem(
      int fd, std::chrono::milliseconds deadline) override;
  exec::Sys<UniqueFd> ConnectUnix(int file) override;
  exec::Sys<ucred> PeerOf(int socket) override;
  exec::Sys<UniqueFd> PeerProcess(int socket) override;
  exec::Sys<exec::NetNamespace> NewNetNamespace() override;
  exec::Sys<UniqueFd> OpenNetlinkIn(int netns, int protocol) override;
  exec::Sys<UniqueFd> OpenNetlink(int protocol) override;
  exec::Sys<void> Subscribe(int netlink, unsigned group) override;
  exec::Sys<void> Send(int socket, std::span<const std::byte> bytes) override;
  exec::Sys<std::size_t> Receive(int socket,
                                 std::span<std::byte> into) override;
  exec::Sys<void> RunNft(const std::string& commands) override;

 private:
  std::string WantedMap(std::span<const exec::IdExtent> extents,
                        std::uint32_t own, bool roots) const;
  enum class Kind {
    kFile,     // at `path`
    kTree,     // a mount of `path`, attached or not
    kContext,  // a file system that is being made
    kNetlink,
    kUserNamespace,
    kMemory,
    kSocket,
    kProcess,
    kWatch,
    kNetns,
  };
  // The object of an fd.
  struct Node {
    Kind kind = Kind::kFile;
    std::string path;
    // Only the kernel and root have chosen the place that it leads to.
    bool trusted = true;
    bool writable = false;
    bool passed = false;  // it came with the plan
    std::uint64_t mount = 0;
    bool recursive = false;
    bool locked = false;            // nobody can clear its mounts' flags
    std::uint64_t propagation = 0;  // the last propagation that was set
    std::set<std::string> options;
    int protocol = 0;
    bool inside = false;  // in an allocation's namespace
    std::uint64_t inode = 0;
    std::vector<std::byte> answers;
  };

  std::uint8_t Lie();
  // Returns an errno to fail with, or 0.
  int Fails();
  UniqueFd Give(Node node);
  Node& Of(int fd);
  std::string PathOf(int dir, const std::string& name);
  exec::FileFacts FactsOf(const std::string& path, bool* found);
  void Distort(exec::FileFacts* facts);

  // End the process unless the plan may make this change.
  void CheckChange(int dir, const std::string& name);
  void CheckChange(const std::string& path);
  bool IsOwnPlace(const std::string& path) const;
  bool IsCallersTree(const std::string& path) const;
  bool IsTarget(const Node& target) const;
  bool IsSource(const Node& tree) const;
  void CheckAttach(const Node& tree, const Node& target);
  void CheckUnmount(const std::string& path);
  bool IsInSubject(const char* part, const std::string& rest) const;
  std::string TargetPath() const;
  exec::Sys<void> Attach(int tree, int target, bool beneath);

  const Config& config_;
  Input lies_;
  World world_;
  ExecNetlink netlink_;
  const exec::Request* plan_ = nullptr;
  std::map<int, Node> nodes_;
  std::set<std::string> directories_;          // that came with the plan
  std::set<std::uint64_t> written_;            // ids of mounts in markers
  std::map<std::string, std::uint64_t> seen_;  // the mount at a path
  std::uint64_t last_netns_ = 4026533000;
  bool lied_ = false;
  bool in_child_ = false;
  bool in_container_ = false;
};

}  // namespace mountd::fuzz
