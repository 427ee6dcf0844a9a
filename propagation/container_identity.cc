// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/container_identity.h"

#include <fcntl.h>
#include <linux/openat2.h>

#include <algorithm>
#include <optional>

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::Named;

constexpr char kMounts[] = "ns/mnt";
constexpr char kPids[] = "ns/pid";
constexpr char kRoot[] = "root";

Error NoContainer(std::string why) {
  return MakeError(Code::kFailedPrecondition, "open container", "pidfd",
                   std::move(why));
}

Result<Process> OpenCaller(const Context& context, std::uint32_t pid) {
  Result<Process> caller = OpenProcess(context, pid);
  // ENOENT: /proc has no directory of this process any more.
  if (!caller && caller.error().sys_errno == ENOENT) {
    return NoContainer("the process that connected has ended; connect again");
  }
  return caller;
}

// Returns nothing if the outcome is EACCES, because a sandbox around the
// executor may hide init.
template <typename T>
Result<std::optional<T>> UnlessHidden(Result<T> outcome) {
  if (!outcome && outcome.error().sys_errno == EACCES) {
    return std::optional<T>();
  }
  if (!outcome) {
    return outcome.error();
  }
  return std::optional(*std::move(outcome));
}

Result<void> CheckNotCallers(const Context& context, const Process& process,
                             std::uint64_t mount_namespace,
                             const Process& caller) {
  if (process.pid == caller.pid) {
    return NoContainer("the process is the caller itself, not a container");
  }
  MOUNTD_ASSIGN(const std::uint64_t callers,
                NamespaceAt(context, caller.dir.get(), kMounts));
  return callers == mount_namespace
             ? Result<void>(NoContainer("the process is in the mount namespace "
                                        "of the caller, not in a container"))
             : Ok();
}

// Checks the pid namespace, because a process cannot leave that, while it can
// leave its mount namespace.
Result<void> CheckPidNamespace(const Context& context, const Process& process,
                               const Process& init, const Process& caller) {
  // Open what the magic link leads to, because NS_GET_USERNS asks a descriptor
  // of the namespace itself (ioctl_ns(2)).
  MOUNTD_ASSIGN(
      const UniqueFd own,
      Named(context.kernel.Open(process.dir.get(), kPids, O_RDONLY, 0),
            "openat2", kPids));
  MOUNTD_ASSIGN(const FileFacts facts,
                Named(context.kernel.Stat(own.get(), ""), "statx", kPids));
  MOUNTD_ASSIGN(const std::uint64_t executors,
                NamespaceAt(context, exec::kFromRoot, "/proc/self/ns/pid"));
  MOUNTD_ASSIGN(const std::optional<std::uint64_t> inits,
                UnlessHidden(NamespaceAt(context, init.dir.get(), kPids)));
  MOUNTD_ASSIGN(const std::uint64_t callers,
                NamespaceAt(context, caller.dir.get(), kPids));
  if (facts.inode == executors || facts.inode == inits) {
    return NoContainer(
        "the process has the host's pid namespace, so it is in no container");
  }
  if (facts.inode == callers) {
    return NoContainer(
        "the process has the caller's pid namespace, so it is in no container");
  }
  MOUNTD_ASSIGN(const std::uint64_t owner,
                Named(context.kernel.OwnerOf(own.get()), "ioctl", kPids));
  MOUNTD_ASSIGN(const std::uint64_t hosts,
                NamespaceAt(context, exec::kFromRoot, "/proc/self/ns/user"));
  return owner == hosts
             ? Ok()
             : Result<void>(NoContainer("its pid namespace belongs to a user "
                                        "namespace, which any user can make"));
}

Result<FileFacts> RootOf(const Context& context, const Process& process) {
  return Named(context.kernel.StatLinked(process.dir.get(), kRoot), "statx",
               kRoot);
}

}  // namespace

Result<ForeignRoots> CheckIdentity(const Context& context,
                                   const Process& process,
                                   std::uint64_t mount_namespace,
                                   std::uint32_t caller_pid) {
  MOUNTD_ASSIGN(const Process caller, OpenCaller(context, caller_pid));
  MOUNTD_ASSIGN(const Process init, OpenProcess(context, kInit));
  MOUNTD_TRY(CheckNotCallers(context, process, mount_namespace, caller));
  MOUNTD_TRY(CheckPidNamespace(context, process, init, caller));
  ForeignRoots roots;
  MOUNTD_ASSIGN(const FileOnMount own,
                LookAt(context, exec::kFromRoot, "/", kRoot));
  MOUNTD_ASSIGN(const FileFacts callers, RootOf(context, caller));
  MOUNTD_ASSIGN(const std::optional<FileFacts> inits,
                UnlessHidden(RootOf(context, init)));
  roots.host = own.mount;
  // Where a sandbox hides init's root, the executor's own root stands for the
  // host's.
  roots.files = {own.file, callers, inits.value_or(own.file)};
  return roots;
}

Result<UniqueFd> OpenOwnRoot(const Context& context, const ForeignRoots& roots,
                             const std::string& object) {
  MOUNTD_ASSIGN(
      UniqueFd root,
      Named(context.kernel.Open(exec::kFromRoot, "/", O_PATH | O_DIRECTORY,
                                RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS),
            "openat2", object));
  MOUNTD_ASSIGN(const FileOnMount its, LookAt(context, root.get(), "", object));
  const bool same_file = std::any_of(
      roots.files.begin(), roots.files.end(), [&](const FileFacts& other) {
        return other.device == its.file.device && other.inode == its.file.inode;
      });
  // The same directory may be mounted elsewhere: compare what the mount shows,
  // too.
  if (same_file || (its.mount.device == roots.host.device &&
                    its.mount.root == roots.host.root)) {
    return NoContainer(
        "its root directory is the host's or the caller's, but a container has "
        "its own");
  }
  return root;
}

}  // namespace mountd::propagation
