// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// The seam between the executor and the kernel. Every system call that changes
// anything, and every one whose answer decides anything, is a method here.
// RealKernel makes the calls. Tests wrap it to count calls or to fail the k-th.
namespace mountd::exec {

// A value, or an errno.
template <typename T>
using Sys = Result<T, int>;

// The answer of statx(2) without asking a file system's server
// (AT_STATX_DONT_SYNC). Safe on the root of a mount whose server hangs.
struct FileFacts {
  std::uint32_t mode = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint32_t links = 0;  // st_nlink
  std::uint64_t inode = 0;
  std::uint64_t device = 0;
  std::uint64_t node = 0;           // st_rdev, of a device
  std::uint64_t mount_id = 0;       // of the mount that holds the file
  bool mount_id_is_unique = false;  // Linux 6.8
  bool mount_root = false;
};

struct MountFacts {
  std::uint64_t id = 0;
  std::uint64_t parent_id = 0;
  std::uint64_t device = 0;
  std::uint64_t attributes = 0;  // MOUNT_ATTR_*
  std::uint64_t peer_group = 0;  // 0: not shared
  std::uint64_t master = 0;      // 0: not a slave
  std::string type;              // "ext4"
  std::string source;            // "/dev/sda1"; "": unknown
  std::string root;              // path in its file system
  std::string point;             // path in this namespace
};

// A mount namespace as ioctl_nsfs(2) names it.
struct MountNamespaceName {
  std::uint64_t inode = 0;
  std::uint64_t id = 0;
};

// A change for mount_setattr(2). A propagation of 0 leaves it unchanged.
struct MountChange {
  std::uint64_t set = 0;
  std::uint64_t clear = 0;
  std::uint64_t propagation = 0;  // MS_PRIVATE, MS_SLAVE, MS_SHARED
  int user_namespace = -1;  // MOUNT_ATTR_IDMAP: its map is the mounts' map
};

// Returns the place of a name among the names of a directory as a number, never
// 0. The place does not depend on other names. Two names rarely share a place.
std::uint64_t NameOrder(std::string_view name);

struct OrderedName {
  std::uint64_t order = 0;
  std::string name;
};

struct ProbeOutcome {
  int error = 0;  // statfs's errno
  bool timed_out = false;
  std::uint32_t lost_children = 0;  // killed children that have not ended yet
};

// A network namespace and a route socket in it.
struct NetNamespace {
  UniqueFd fd;
  UniqueFd route;
};

// As `dir`: the path is absolute.
inline constexpr int kFromRoot = -1;

class Kernel {
 public:
  virtual ~Kernel() = default;

  // Files. A `name` is one path component, and no call follows a link at it. ""
  // names `dir` itself.
  virtual Sys<UniqueFd> Open(int dir, const std::string& path, int flags,
                             std::uint64_t resolve) = 0;
  virtual Sys<FileFacts> Stat(int dir, const std::string& name) = 0;
  // Returns facts of the file that the magic link `name` of /proc leads to,
  // without opening it.
  virtual Sys<FileFacts> StatLinked(int dir, const std::string& name) = 0;
  // Returns the reusable id of that file's mount, as in mountinfo.
  virtual Sys<std::uint64_t> LinkedMountId(int dir,
                                           const std::string& name) = 0;
  virtual Sys<void> MakeDirectory(int dir, const std::string& name,
                                  mode_t mode) = 0;
  virtual Sys<void> MakeFile(int dir, const std::string& name, mode_t mode) = 0;
  virtual Sys<void> MakeLink(const std::string& text, int dir,
                             const std::string& name) = 0;
  virtual Sys<std::string> ReadLink(int dir, const std::string& name) = 0;
  virtual Sys<void> RemoveFile(int dir, const std::string& name) = 0;
  virtual Sys<void> RemoveDirectory(int dir, const std::string& name) = 0;
  // EEXIST if `new_name` exists.
  virtual Sys<void> Rename(int dir, const std::string& name, int new_dir,
                           const std::string& new_name) = 0;
  // SetOwner and SetMode change the file of `fd`, which may be O_PATH.
  virtual Sys<void> SetOwner(int fd, uid_t uid, gid_t gid) = 0;
  virtual Sys<void> SetMode(int fd, mode_t mode) = 0;
  // Returns the file's access ACL, acl(5), in the kernel's format
  // (linux/posix_acl_xattr.h); "" if the mode says it all. EOPNOTSUPP if the
  // file system keeps no ACLs.
  virtual Sys<std::string> ReadAcl(int fd) = 0;
  virtual Sys<void> SetAcl(int fd, std::string_view acl) = 0;
  // Lists at most `limit` names other than "." and "..". `dir` may be O_PATH.
  virtual Sys<std::vector<std::string>> List(int dir, std::size_t limit) = 0;
  // Lists the first `limit` names after `after`, in the order of NameOrder.
  virtual Sys<std::vector<OrderedName>> ListAfter(int dir, std::uint64_t after,
                                                  std::size_t limit) = 0;
  // Locks by flock(2) LOCK_EX until `fd` is closed. EWOULDBLOCK if somebody
  // else holds the lock for longer than a plan can wait. ECANCELED if the
  // mountd that asked for the plan is gone by then, because another mountd may
  // have changed the object meanwhile.
  virtual Sys<void> Lock(int fd) = 0;
  // All of a file of the kernel's; EFBIG if it holds more than `limit` bytes.
  // Reads all of a kernel's file. EFBIG if it holds more than `limit` bytes.
  virtual Sys<std::string> ReadFile(int dir, const std::string& name,
                                    std::size_t limit) = 0;
  // ENOSPC if the kernel writes only a part.
  virtual Sys<void> Write(int fd, std::string_view text) = 0;
  // Returns whether the fd is a file of memory (memfd_create(2), tmpfs), which
  // no server can delay.
  virtual Sys<bool> IsMemory(int fd) = 0;
  // Reads all of a memfd. EFBIG if it holds more than `limit` bytes.
  virtual Sys<std::string> ReadMemory(int fd, std::size_t limit) = 0;
  virtual Sys<std::string> ReadSetting(const char* path) = 0;
  virtual Sys<void> WriteSetting(const char* path, std::string_view text) = 0;

  // Opens as O_PATH the file of a kernfs (such as cgroupfs) with this inode
  // number, by open_by_handle_at(2). `fs` is an fd on that kernfs, not O_PATH.
  // ESTALE if there is no such file.
  virtual Sys<UniqueFd> OpenKernfs(int fs, std::uint64_t id) = 0;
  // EBADF if the fd is no pidfd.
  virtual Sys<bool> HasEnded(int pidfd) = 0;

  // Mounts.
  virtual Sys<UniqueFd> OpenFilesystem(const char* type) = 0;  // fsopen
  // A `value` of nullptr sets a flag, such as "noswap".
  virtual Sys<void> ConfigureFilesystem(int fs, const char* key,
                                        const char* value) = 0;
  virtual Sys<void> CreateFilesystem(int fs) = 0;
  virtual Sys<UniqueFd> MountFilesystem(int fs, unsigned attributes) = 0;
  virtual Sys<UniqueFd> CloneTree(int fd, bool recursive) = 0;  // open_tree
  virtual Sys<void> SetMount(int tree, bool recursive,
                             const MountChange& change) = 0;
  // Makes a user namespace with this uid_map and gid_map, user_namespaces(7),
  // and no process in it.
  virtual Sys<UniqueFd> NewUserNamespace(const std::string& map) = 0;
  virtual Sys<void> AttachTree(int tree, int target) = 0;  // move_mount
  // Attaches the tree beneath the mount whose root is `target` (Linux 6.5).
  virtual Sys<void> AttachBeneath(int tree, int target) = 0;
  // Gives the private mount of `fd` the peer group and master of the mount of
  // `from`, of which it shows a part (MOVE_MOUNT_SET_GROUP, Linux 5.15).
  virtual Sys<void> JoinGroup(int from, int fd) = 0;
  // Unmounts the top mount at (parent, name) by umount2(2), never through a
  // link.
  virtual Sys<void> Unmount(int parent, const std::string& name, int flags) = 0;
  virtual bool CanMountBeneath() = 0;  // Linux 6.5
  // statmount(2). `root` and `point` are empty where they are too long.
  virtual Sys<MountFacts> MountById(std::uint64_t id) = 0;
  // listmount(2). Returns the mounts anywhere below the mount `id` that are
  // newer than the mount `after`; 0: all. The kernel skips the older ones
  // without looking at them.
  virtual Sys<std::vector<std::uint64_t>> MountsBelow(std::uint64_t id,
                                                      std::uint64_t after) = 0;
  // Returns the id of the mount namespace of a process or thread; `process` is
  // its directory in /proc. ENOTTY before Linux 6.11.
  virtual Sys<std::uint64_t> MountNamespaceOf(int process) = 0;
  // Returns all mount namespaces of the machine except this process's own,
  // including those without a process. ENOTTY before Linux 6.12; EPERM where
  // the kernel shows them to nobody in this pid namespace.
  virtual Sys<std::vector<MountNamespaceName>> MountNamespaces() = 0;
  // Returns the mounts of the mount namespace with that id (Linux 6.11), with
  // mountinfo's ids and with points in that namespace. ENOENT if it is gone.
  virtual Sys<std::vector<MountFacts>> MountsOfNamespace(std::uint64_t id) = 0;

  // Processes. Runs `body` in a child and returns its exit status. The child
  // has a session of its own, this process's capabilities, an environment with
  // only PATH, and only the fds of `kept`, which programs that it starts do not
  // inherit. ETIMEDOUT if it was killed after `limit`, together with its
  // session's process group; its system call may still end later. ECHILD if
  // others killed it; this process then kills the rest of the group. EAGAIN at
  // the limit of processes; see NamedOfChild.
  virtual Sys<std::uint8_t> RunChild(const std::function<int()>& body,
                                     std::span<const int> kept,
                                     std::chrono::milliseconds limit) = 0;

  // Mount namespaces. Moves the process into a copy of its namespace that can
  // be pinned in the old one. The kernel pins only a younger namespace, because
  // it fears a loop. On an error the process stays where it was.
  virtual Sys<void> NewMountNamespace() = 0;
  // Enters a namespace by setns(2), which sets root and working directory to
  // its root. Only a child of RunChild may enter a namespace of others.
  virtual Sys<void> EnterMountNamespace(int mount_namespace) = 0;

  // Namespaces of others.
  virtual Sys<std::uint64_t> OwnerOf(int name_space) = 0;
  // Returns the owner of that user namespace (NS_GET_OWNER_UID).
  virtual Sys<uid_t> OwnerUidOf(int name_space) = 0;
  // Returns the kind, such as CLONE_NEWNET (NS_GET_NSTYPE). `name_space` must
  // be of nsfs.
  virtual Sys<std::uint64_t> NamespaceTypeOf(int name_space) = 0;

  // Mounts' presence and health. Returns a fanotify group that reports mounts
  // and unmounts in the namespace (Linux 6.15; EINVAL before). Reading it needs
  // no right.
  virtual Sys<UniqueFd> WatchMounts(int mount_namespace) = 0;
  // Returns a memfd that holds `content`.
  virtual Sys<UniqueFd> MakeMemory(std::span<const std::byte> content) = 0;
  // Calls statfs(2) on the file system of `fd` in a child, and kills the child
  // at the deadline. ECHILD if others killed it.
  virtual Sys<ProbeOutcome> ProbeFilesystem(
      int fd, std::chrono::milliseconds deadline) = 0;

  // Sockets. Returns a stream socket connected, without blocking, to the socket
  // file of `file`, which is an O_PATH fd.
  virtual Sys<UniqueFd> ConnectUnix(int file) = 0;
  virtual Sys<ucred> PeerOf(int socket) = 0;
  // Returns a pidfd of the peer's process (SO_PEERPIDFD). ENOPROTOOPT before
  // Linux 6.5. If the process has ended, an error or the pidfd of an ended
  // process.
  virtual Sys<UniqueFd> PeerProcess(int socket) = 0;

  // Networks. The first two leave the process in its namespace, or abort it.
  virtual Sys<NetNamespace> NewNetNamespace() = 0;
  virtual Sys<UniqueFd> OpenNetlinkIn(int netns, int protocol) = 0;
  virtual Sys<UniqueFd> OpenNetlink(int protocol) = 0;
  // NETLINK_ADD_MEMBERSHIP.
  virtual Sys<void> Subscribe(int netlink, unsigned group) = 0;
  virtual Sys<void> Send(int socket, std::span<const std::byte> bytes) = 0;
  // Reads a queued message. EAGAIN if none is queued.
  virtual Sys<std::size_t> Receive(int socket, std::span<std::byte> into) = 0;
  // Runs one libnftables transaction.
  virtual Sys<void> RunNft(const std::string& commands) = 0;
};

// Turns the outcome into a Result whose Error names the operation and object.
template <typename T>
Result<T> Named(Sys<T> outcome, std::string_view op, std::string_view object) {
  if (!outcome) {
    return ErrnoError(outcome.error(), std::string(op), std::string(object));
  }
  if constexpr (std::is_void_v<T>) {
    return Ok();
  } else {
    return std::move(outcome).value();
  }
}

// The same for a call that needs a process of its own; see ForkError.
template <typename T>
Result<T> NamedOfChild(Sys<T> outcome, std::string_view op,
                       std::string_view object) {
  if (!outcome) {
    return ForkError(outcome.error(), std::string(op), std::string(object));
  }
  return Named(std::move(outcome), op, object);
}

// Locks by Kernel::Lock. Busy, with the reason, if an earlier plan holds the
// lock.
inline Result<void> Locked(Kernel& kernel, int fd, const std::string& object) {
  const Sys<void> locked = kernel.Lock(fd);
  if (!locked && locked.error() == EWOULDBLOCK) {
    return MakeError(
        Code::kBusy, "flock", object,
        "an earlier plan still works on this object; call again later");
  }
  return Named(locked, "flock", object);
}

// True if `outcome` failed with just this errno.
template <typename T>
bool FailedWith(const Sys<T>& outcome, int err) {
  return !outcome && outcome.error() == err;
}

// Reports a plan's outcome to mountd at the plan's end. A plan that makes
// something commits it only if the report succeeds. mountd has no record of a
// plan that it gave up, and would never remove the result.
template <typename State>
using Tell = std::function<Result<void>(const State&)>;

// Holds the steps that undo a plan that fails half way. Runs them, last first,
// unless Commit was called. Declare it after everything that its steps refer
// to. Nobody learns of a step that fails; the next inspection of the object
// finds the rest.
class Undo {
 public:
  Undo() = default;
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;
  ~Undo() {
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      (*step)();
    }
  }
  void Add(std::function<void()> step) { steps_.push_back(std::move(step)); }
  void Commit() { steps_.clear(); }

 private:
  std::vector<std::function<void()>> steps_;
};

}  // namespace mountd::exec
