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

// The seam between the executor and the kernel: every system call that changes
// anything, or on whose answer something is decided, is a method here.
// RealKernel makes the calls; a test wraps it to count them, or to fail the
// k-th.
namespace mountd::exec {

// A value, or an errno.
template <typename T>
using Sys = Result<T, int>;

// statx(2) without asking a file system's server (AT_STATX_DONT_SYNC): safe on
// the root of a mount whose server hangs.
struct FileFacts {
  std::uint32_t mode = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint64_t inode = 0;
  std::uint64_t device = 0;
  std::uint64_t node = 0;           // st_rdev, of a device
  std::uint64_t mount_id = 0;       // of the mount it lies in
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
  std::string source;            // "/dev/sda1"; "": it cannot be told
  std::string root;              // path in its file system
  std::string point;             // path in this namespace
};

// ioctl_nsfs(2).
struct MountNamespaceName {
  std::uint64_t inode = 0;
  std::uint64_t id = 0;
};

// For mount_setattr(2). A propagation of 0 leaves it as it is.
struct MountChange {
  std::uint64_t set = 0;
  std::uint64_t clear = 0;
  std::uint64_t propagation = 0;  // MS_PRIVATE, MS_SLAVE, MS_SHARED
  int user_namespace = -1;        // MOUNT_ATTR_IDMAP: whose map the mounts get
};

// A place for each name among those of one directory, whatever else is made or
// removed there, as a number: never 0. Two names may share one, if rarely.
std::uint64_t NameOrder(std::string_view name);

struct OrderedName {
  std::uint64_t order = 0;
  std::string name;
};

struct ProbeOutcome {
  int error = 0;  // statfs's errno
  bool timed_out = false;
  std::uint32_t lost_children = 0;  // that cannot be killed, until now
};

// A namespace and a route socket that lives in it.
struct NetNamespace {
  UniqueFd fd;
  UniqueFd route;
};

// For `dir`: the path is absolute.
inline constexpr int kFromRoot = -1;

class Kernel {
 public:
  virtual ~Kernel() = default;

  // Files. A `name` is one component, never followed; "" is `dir` itself.
  // openat2(2), tried again on EAGAIN (a rename raced with "..").
  virtual Sys<UniqueFd> Open(int dir, const std::string& path, int flags,
                             std::uint64_t resolve) = 0;
  virtual Sys<FileFacts> Stat(int dir, const std::string& name) = 0;
  // Of what the magic link `name` of /proc leads to, which is not opened.
  virtual Sys<FileFacts> StatLinked(int dir, const std::string& name) = 0;
  // The reusable id of its mount, as mountinfo tells it.
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
  // EEXIST if `new_name` is there.
  virtual Sys<void> Rename(int dir, const std::string& name, int new_dir,
                           const std::string& new_name) = 0;
  // Of the file `fd` is any fd of, O_PATH too.
  virtual Sys<void> SetOwner(int fd, uid_t uid, gid_t gid) = 0;
  virtual Sys<void> SetMode(int fd, mode_t mode) = 0;
  // The same file's access ACL, acl(5), as the kernel hands it out
  // (linux/posix_acl_xattr.h); "" if its mode says it all. EOPNOTSUPP if its
  // file system keeps none.
  virtual Sys<std::string> ReadAcl(int fd) = 0;
  virtual Sys<void> SetAcl(int fd, std::string_view acl) = 0;
  // Names other than "." and "..", at most `limit`. `dir` may be O_PATH.
  virtual Sys<std::vector<std::string>> List(int dir, std::size_t limit) = 0;
  // The first `limit` of them after `after`, in the order of NameOrder.
  virtual Sys<std::vector<OrderedName>> ListAfter(int dir, std::uint64_t after,
                                                  std::size_t limit) = 0;
  // flock(2) LOCK_EX; held until `fd` is closed. EWOULDBLOCK if somebody else
  // has it for longer than a plan can wait. ECANCELED if whoever asked for the
  // plan is gone by then: what another mountd made meanwhile is not this
  // plan's.
  virtual Sys<void> Lock(int fd) = 0;
  // All of a file of the kernel's; EFBIG if it holds more than `limit` bytes.
  virtual Sys<std::string> ReadFile(int dir, const std::string& name,
                                    std::size_t limit) = 0;
  // ENOSPC if not all of it can be.
  virtual Sys<void> Write(int fd, std::string_view text) = 0;
  // Whether it is a file of memory (memfd_create(2), tmpfs), which no server
  // can delay.
  virtual Sys<bool> IsMemory(int fd) = 0;
  // All that a memfd holds; EFBIG if that is more than `limit` bytes.
  virtual Sys<std::string> ReadMemory(int fd, std::size_t limit) = 0;
  virtual Sys<std::string> ReadSetting(const char* path) = 0;
  virtual Sys<void> WriteSetting(const char* path, std::string_view text) = 0;

  // open_by_handle_at(2), as O_PATH, of the file of a kernfs (cgroupfs, say)
  // that has this inode number; `fs` is an fd on it, not O_PATH. ESTALE if
  // there is none.
  virtual Sys<UniqueFd> OpenKernfs(int fs, std::uint64_t id) = 0;
  // EBADF if it is no pidfd.
  virtual Sys<bool> HasEnded(int pidfd) = 0;

  // Mounts.
  virtual Sys<UniqueFd> OpenFilesystem(const char* type) = 0;  // fsopen
  // A `value` of nullptr sets a flag, as "noswap".
  virtual Sys<void> ConfigureFilesystem(int fs, const char* key,
                                        const char* value) = 0;
  virtual Sys<void> CreateFilesystem(int fs) = 0;
  virtual Sys<UniqueFd> MountFilesystem(int fs, unsigned attributes) = 0;
  virtual Sys<UniqueFd> CloneTree(int fd, bool recursive) = 0;  // open_tree
  virtual Sys<void> SetMount(int tree, bool recursive,
                             const MountChange& change) = 0;
  // A user namespace with this uid_map and gid_map, user_namespaces(7), and
  // nobody in it.
  virtual Sys<UniqueFd> NewUserNamespace(const std::string& map) = 0;
  virtual Sys<void> AttachTree(int tree, int target) = 0;  // move_mount
  // The same beneath the mount that `target` is the root of (Linux 6.5).
  virtual Sys<void> AttachBeneath(int tree, int target) = 0;
  // MOVE_MOUNT_SET_GROUP (Linux 5.15): the private mount of `fd` gets the peer
  // group and master of the mount of `from`, of which it shows a part.
  virtual Sys<void> JoinGroup(int from, int fd) = 0;
  // umount2(2) of the top mount at (parent, name), never through a link.
  virtual Sys<void> Unmount(int parent, const std::string& name, int flags) = 0;
  virtual bool CanMountBeneath() = 0;  // Linux 6.5
  // statmount; `root` and `point` are empty where they are too long to tell.
  virtual Sys<MountFacts> MountById(std::uint64_t id) = 0;
  // listmount(2): the mounts attached anywhere below that of `id` that are
  // newer than that of `after`; 0: all. The kernel looks at no older ones.
  virtual Sys<std::vector<std::uint64_t>> MountsBelow(std::uint64_t id,
                                                      std::uint64_t after) = 0;
  // The id of the mount namespace of the process or thread with the directory
  // `process` in /proc. ENOTTY before Linux 6.11.
  virtual Sys<std::uint64_t> MountNamespaceOf(int process) = 0;
  // All mount namespaces of the machine but this process's own, also those that
  // no process is in. ENOTTY before Linux 6.12; EPERM where the kernel shows
  // them to nobody in this pid namespace.
  virtual Sys<std::vector<MountNamespaceName>> MountNamespaces() = 0;
  // The mounts of the mount namespace with that id (Linux 6.11), with the ids
  // that mountinfo tells and points in that namespace. ENOENT if it is gone.
  virtual Sys<std::vector<MountFacts>> MountsOfNamespace(std::uint64_t id) = 0;

  // Processes. Runs `body` in a child in a session of its own, with this
  // process's capabilities, an empty environment but for PATH, and no fds but
  // `kept`, which programs it starts do not get. Its exit status; ETIMEDOUT if
  // it was killed after `limit`, with all of its session's group: what it was
  // doing in the kernel may come to an end later. ECHILD: others killed it, and
  // this process the rest of the group.
  // EAGAIN: there are as many processes as there may be; see NamedOfChild.
  virtual Sys<std::uint8_t> RunChild(const std::function<int()>& body,
                                     std::span<const int> kept,
                                     std::chrono::milliseconds limit) = 0;

  // Mount namespaces. Leaves the one the process is in for a copy of it, that
  // can be pinned there: younger in the kernel's eyes, which else fears a loop.
  // On an error the process is where it was.
  virtual Sys<void> NewMountNamespace() = 0;
  // setns(2): root and working directory are its root then. Into one of others,
  // for a child of RunChild only.
  virtual Sys<void> EnterMountNamespace(int mount_namespace) = 0;

  // Namespaces of others.
  // The inode of the user namespace that owns a namespace (NS_GET_USERNS).
  virtual Sys<std::uint64_t> OwnerOf(int name_space) = 0;
  // Whose that user namespace is (NS_GET_OWNER_UID).
  virtual Sys<uid_t> OwnerUidOf(int name_space) = 0;
  // Its kind, as CLONE_NEWNET (NS_GET_NSTYPE); `name_space` must be of nsfs.
  virtual Sys<std::uint64_t> NamespaceTypeOf(int name_space) = 0;

  // Whether mounts are there, and answer. A fanotify group that tells what is
  // mounted and unmounted in the namespace (Linux 6.15; EINVAL before); it can
  // be read without any right.
  virtual Sys<UniqueFd> WatchMounts(int mount_namespace) = 0;
  // A memfd that holds `content`.
  virtual Sys<UniqueFd> MakeMemory(std::span<const std::byte> content) = 0;
  // statfs(2) of the file system that `fd` lies in, by a child that is killed
  // at the deadline. ECHILD: others killed it.
  virtual Sys<ProbeOutcome> ProbeFilesystem(
      int fd, std::chrono::milliseconds deadline) = 0;

  // Sockets. A stream socket connected, without blocking, to the socket file
  // that `file` is an O_PATH fd of.
  virtual Sys<UniqueFd> ConnectUnix(int file) = 0;
  virtual Sys<ucred> PeerOf(int socket) = 0;
  // A pidfd of the peer's process (SO_PEERPIDFD). ENOPROTOOPT before Linux 6.5;
  // where it has ended, an error or one that has.
  virtual Sys<UniqueFd> PeerProcess(int socket) = 0;

  // Networks. The first two leave the process where it was, or abort it.
  virtual Sys<NetNamespace> NewNetNamespace() = 0;
  virtual Sys<UniqueFd> OpenNetlinkIn(int netns, int protocol) = 0;
  virtual Sys<UniqueFd> OpenNetlink(int protocol) = 0;
  // NETLINK_ADD_MEMBERSHIP.
  virtual Sys<void> Subscribe(int netlink, unsigned group) = 0;
  virtual Sys<void> Send(int socket, std::span<const std::byte> bytes) = 0;
  // What is queued already; EAGAIN if nothing is.
  virtual Sys<std::size_t> Receive(int socket, std::span<std::byte> into) = 0;
  // One libnftables transaction.
  virtual Sys<void> RunNft(const std::string& commands) = 0;
};

// The same outcome as an Error that names the operation and its object.
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

// The same of what needs a process of its own; see ForkError.
template <typename T>
Result<T> NamedOfChild(Sys<T> outcome, std::string_view op,
                       std::string_view object) {
  if (!outcome) {
    return ForkError(outcome.error(), std::string(op), std::string(object));
  }
  return Named(std::move(outcome), op, object);
}

// Kernel::Lock; Busy says why.
inline Result<void> Locked(Kernel& kernel, int fd, const std::string& object) {
  const Sys<void> locked = kernel.Lock(fd);
  if (!locked && locked.error() == EWOULDBLOCK) {
    return MakeError(Code::kBusy, "flock", object,
                     "an earlier plan is still at work there");
  }
  return Named(locked, "flock", object);
}

// True if `outcome` failed with just this errno.
template <typename T>
bool FailedWith(const Sys<T>& outcome, int err) {
  return !outcome && outcome.error() == err;
}

// Tells mountd the outcome of a plan, at the plan's end. A plan that makes
// something commits it only when that went well: of what mountd gave up waiting
// for it has no record, and would never take it away.
template <typename State>
using Tell = std::function<Result<void>(const State&)>;

// What to undo if a plan fails half way: runs its steps, last first, unless
// Commit was called. Declare it after everything its steps refer to. A step
// that fails has no one to tell: the next inspection of the object finds what
// is left.
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
