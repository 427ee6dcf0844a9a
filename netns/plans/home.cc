// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/plans/home.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/openat2.h>
#include <sched.h>

#include <cerrno>
#include <utility>

namespace mountd::netns {
namespace {

using exec::FileFacts;
using exec::Kernel;
using exec::Named;

constexpr std::size_t kMostMarkers = 65'536;
// Each thread has namespaces of its own (setns(2)), so not "self".
constexpr char kOwn[] = "/proc/thread-self/ns";
constexpr char kFirst[] = "/proc/1/ns";

std::string NameOfPlan(const exec::NetworkPlan& plan) {
  return std::string(plan.allocation.view());
}

Error NotGiven(Code code, const exec::NetworkPlan& plan, const char* why) {
  return MakeError(code, "take namespace", NameOfPlan(plan), why);
}

// Opens an rtnetlink socket in the namespace.
Result<Home> Enter(Kernel& kernel, int fd, const std::string& object) {
  MOUNTD_ASSIGN(UniqueFd socket, Named(kernel.OpenNetlinkIn(fd, NETLINK_ROUTE),
                                       "setns", object));
  return Home{UniqueFd(), Channel(kernel, std::move(socket)), fd};
}

// Returns the inode of the network namespace that `fd` refers to.
// InvalidArgument if it refers to something else.
Result<std::uint64_t> InodeOf(Kernel& kernel, const exec::NetworkPlan& plan,
                              std::uint64_t nsfs, int fd) {
  MOUNTD_ASSIGN(const FileFacts facts,
                Named(kernel.Stat(fd, ""), "statx", NameOfPlan(plan)));
  // Ask an ioctl only of nsfs: the server of another file system may never
  // answer.
  const exec::Sys<std::uint64_t> type =
      facts.device == nsfs ? kernel.NamespaceTypeOf(fd)
                           : exec::Sys<std::uint64_t>(std::uint64_t{0});
  // EBADF and ENOTTY: the caller has given a file that has no type.
  if (!type && type.error() != EBADF && type.error() != ENOTTY) {
    return ErrnoError(type.error(), "ioctl", NameOfPlan(plan));
  }
  if (!type || *type != CLONE_NEWNET) {
    return NotGiven(Code::kInvalidArgument, plan,
                    "the given namespace is not a network namespace");
  }
  return facts.inode;
}

// Returns the inode of the process's namespace of this kind.
Result<std::uint64_t> InodeIn(Kernel& kernel, const char* process,
                              const char* kind) {
  MOUNTD_ASSIGN(const UniqueFd directory,
                Named(kernel.Open(exec::kFromRoot, process,
                                  O_PATH | O_DIRECTORY | O_CLOEXEC, 0),
                      "openat2", process));
  MOUNTD_ASSIGN(
      const FileFacts facts,
      Named(kernel.StatLinked(directory.get(), kind), "statx", process));
  return facts.inode;
}

// Returns whether the namespace belongs to this process's user namespace, and
// not to one that some user made for himself.
Result<bool> IsOfHostsUserNamespace(Kernel& kernel,
                                    const exec::NetworkPlan& plan, int fd) {
  MOUNTD_ASSIGN(const std::uint64_t owner,
                Named(kernel.OwnerOf(fd), "NS_GET_USERNS", NameOfPlan(plan)));
  MOUNTD_ASSIGN(const std::uint64_t hosts, InodeIn(kernel, kOwn, "user"));
  return owner == hosts;
}

// PermissionDenied if the namespace is that of this process or of pid 1. An LSM
// may hide pid 1's (EACCES). Ignores that only if the namespace is of another
// user namespace, because it cannot be pid 1's then.
Result<void> CheckNotTheHosts(Kernel& kernel, const exec::NetworkPlan& plan,
                              std::uint64_t inode, bool of_hosts_user) {
  for (const char* process : {kOwn, kFirst}) {
    const Result<std::uint64_t> hosts = InodeIn(kernel, process, "net");
    if (!hosts && (hosts.error().sys_errno != EACCES || of_hosts_user ||
                   process == kOwn)) {
      return hosts.error();
    }
    if (hosts && *hosts == inode) {
      return NotGiven(Code::kPermissionDenied, plan,
                      "the given namespace is the host's own");
    }
  }
  return Ok();
}

Result<void> CheckNotAnothers(Kernel& kernel, const exec::NetworkPlan& plan,
                              const PinPlace& place, std::uint64_t inode) {
  MOUNTD_ASSIGN(const std::vector<std::string> names,
                Named(kernel.List(place.markers, kMostMarkers), "getdents",
                      "namespaces"));
  for (const std::string& name : names) {
    const exec::Sys<std::string> marker = kernel.ReadLink(place.markers, name);
    // A marker's text is the inode of its pinned namespace (pin.h).
    if (name != place.name && marker && *marker == std::to_string(inode)) {
      return NotGiven(Code::kPermissionDenied, plan,
                      "the given namespace belongs to another allocation");
    }
  }
  return Ok();
}

Result<void> CheckOwner(Kernel& kernel, const exec::NetworkPlan& plan, int fd,
                        bool of_hosts_user, bool of_root) {
  if (of_hosts_user) {
    return of_root ? Ok()
                   : Result<void>(
                         NotGiven(Code::kPermissionDenied, plan,
                                  "the given namespace belongs to the host's "
                                  "user namespace; a rule with host_namespaces "
                                  "= true in mountd.toml would allow it"));
  }
  MOUNTD_ASSIGN(const uid_t uid, Named(kernel.OwnerUidOf(fd),
                                       "NS_GET_OWNER_UID", NameOfPlan(plan)));
  return uid == plan.owner_uid
             ? Ok()
             : Result<void>(NotGiven(Code::kPermissionDenied, plan,
                                     "the given namespace belongs to another "
                                     "user's user namespace"));
}

}  // namespace

Result<Home> NewHome(Kernel& kernel, NamespacePool* pool) {
  MOUNTD_ASSIGN(exec::NetNamespace made, pool->Take(kernel));
  const int fd = made.fd.get();
  return Home{std::move(made.fd), Channel(kernel, std::move(made.route)), fd};
}

Result<Home> GivenHome(Kernel& kernel, const exec::NetworkPlan& plan,
                       const PinPlace& place, int fd, bool of_root) {
  MOUNTD_ASSIGN(const std::uint64_t inode,
                InodeOf(kernel, plan, place.nsfs, fd));
  if (inode != plan.netns_inode) {
    return NotGiven(Code::kInvalidArgument, plan,
                    "the given namespace is not the one of the first call");
  }
  MOUNTD_ASSIGN(const bool of_hosts_user,
                IsOfHostsUserNamespace(kernel, plan, fd));
  MOUNTD_TRY(CheckNotTheHosts(kernel, plan, inode, of_hosts_user));
  MOUNTD_TRY(CheckNotAnothers(kernel, plan, place, inode));
  MOUNTD_TRY(CheckOwner(kernel, plan, fd, of_hosts_user, of_root));
  return Enter(kernel, fd, NameOfPlan(plan));
}

Result<Home> PinnedHome(Kernel& kernel, const exec::NetworkPlan& plan,
                        const PinPlace& place) {
  MOUNTD_ASSIGN(const Pin pin, FindPin(kernel, place));
  if (!pin.ours || pin.inode == 0 || pin.inode != plan.netns_inode) {
    return MakeError(
        Code::kFailedPrecondition, "find namespace", NameOfPlan(plan),
        "the allocation's namespace no longer exists; release the allocation");
  }
  // O_RDONLY, because setns(2) refuses an O_PATH descriptor.
  MOUNTD_ASSIGN(UniqueFd fd,
                Named(kernel.Open(place.directory, place.name, O_RDONLY,
                                  RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS),
                      "openat2", place.name));
  MOUNTD_ASSIGN(Home home, Enter(kernel, fd.get(), place.name));
  home.own = std::move(fd);
  return home;
}

}  // namespace mountd::netns
