// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/detach.h"

#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>

#include "propagation/fuse.h"
#include "propagation/inbox.h"
#include "propagation/outside_inbox.h"
#include "propagation/target.h"

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::MountState;
using exec::Named;

// Returns whether `mount` is at (parent, name).
Result<bool> IsThere(const Context& context, const UniqueFd& parent,
                     const std::string& name, const MountFacts& mount,
                     const std::string& object) {
  exec::Sys<FileFacts> there = context.kernel.Stat(parent.get(), name);
  // FUSE tells root nothing but the device of a user's own mount. No other file
  // system has that device.
  const bool hides =
      exec::FailedWith(there, EACCES) && mount.type.starts_with("fuse");
  if (hides) {
    there = context.kernel.StatLinked(parent.get(), name);
  }
  if (!there) {
    return ErrnoError(there.error(), "statx", object);
  }
  return hides ? there->device == mount.device : there->mount_id == mount.id;
}

// Unmounts `mount`, which lies below the mount at (dir, name). Busy if another
// mount is now at its place.
Result<void> UnmountBelow(const Context& context, int dir,
                          const std::string& name, const MountFacts& top,
                          const MountFacts& mount, const std::string& object) {
  exec::Kernel& kernel = context.kernel;
  if (!mount.point.starts_with(top.point + "/")) {
    return MakeError(Code::kBusy, "umount2", object,
                     "a mount below it was moved; call again");
  }
  const std::string path = mount.point.substr(top.point.size() + 1);
  const std::size_t slash = path.rfind('/');
  const std::string above =
      slash == std::string::npos ? name : name + "/" + path.substr(0, slash);
  const std::string last =
      slash == std::string::npos ? path : path.substr(slash + 1);
  MOUNTD_ASSIGN(const UniqueFd parent,
                OpenBeneath(context, dir, above, object));
  MOUNTD_ASSIGN(const bool is_there,
                IsThere(context, parent, last, mount, object));
  if (!is_there) {
    return MakeError(
        Code::kBusy, "umount2", object,
        "a mount below it was covered or moved; unmount the upper one first");
  }
  return Named(kernel.Unmount(parent.get(), last, 0), "umount2", object);
}

// Returns whether the file system's server is gone (FUSE, NFS), so that no file
// in it can be looked up.
bool IsServerGone(const Result<void>& outcome) {
  return !outcome && (outcome.error().sys_errno == ENOTCONN ||
                      outcome.error().sys_errno == ESTALE);
}

// Opens the mount at (dir, name). Busy if that is not `top`, because somebody
// put another mount on it meanwhile.
Result<UniqueFd> OpenTop(const Context& context, int dir,
                         const std::string& name, const MountFacts& top,
                         const std::string& object) {
  MOUNTD_ASSIGN(UniqueFd fd, OpenBeneath(context, dir, name, object));
  MOUNTD_ASSIGN(const FileFacts opened,
                Named(context.kernel.Stat(fd.get(), ""), "statx", object));
  return opened.mount_id == top.id
             ? Result<UniqueFd>(std::move(fd))
             : MakeError(Code::kBusy, "umount2", object,
                         "another mount covers it; unmount that one first");
}

// Makes the mount and all mounts below it private. Works on an opened
// descriptor, so that a mount which somebody put on top meanwhile keeps its
// peer group.
Result<void> LeaveGroup(const Context& context, const UniqueFd& fd,
                        const std::string& object) {
  // An unmount in a shared mount happens in its peers as well
  // (mount_namespaces(7)), and the source is one of them.
  return Named(
      context.kernel.SetMount(fd.get(), true, {.propagation = MS_PRIVATE}),
      "mount_setattr", object);
}

// Puts the mount back into the peer group that `peer` is in. The mounts below
// it stay private.
void JoinAgain(const Context& context, const UniqueFd& peer, int dir,
               const std::string& name, const MountFacts& top,
               const std::string& object) {
  const Result<UniqueFd> fd = OpenTop(context, dir, name, top, object);
  if (fd) {
    IgnoreBecauseBestEffort(context.kernel.JoinGroup(peer.get(), fd->get()));
  }
}

// Unmounts the mounts `below` the private mount `top`, then `top`.
Result<void> UnmountPrivate(const Context& context, int dir,
                            const std::string& name, const MountFacts& top,
                            const std::vector<MountFacts>& below,
                            const std::string& object) {
  int flags = 0;
  for (const MountFacts& mount : below) {
    const Result<void> unmounted =
        UnmountBelow(context, dir, name, top, mount, object);
    // The kernel looks up nothing in a file system without a server, so detach
    // the top with everything below.
    if (IsServerGone(unmounted)) {
      flags = MNT_DETACH;  // the mounts below go with the target
      break;
    }
    MOUNTD_TRY(unmounted);
  }
  return Named(context.kernel.Unmount(dir, name, flags), "umount2", object);
}

// Unmounts the mounts below the target, then the target. A clone of a source
// has copies of the mounts below that source, and later ones arrive by
// propagation. The originals belong to the source and stay there.
Result<void> UnmountTree(const Context& context, int dir,
                         const std::string& name, std::uint64_t mount_id,
                         const std::string& object) {
  MOUNTD_ASSIGN(const std::vector<MountFacts> below,
                Descendants(context.inspector, mount_id));
  if (below.empty()) {
    return MakeError(Code::kBusy, "umount2", object,
                     "processes use the mount; ListHolders names them");
  }
  MOUNTD_ASSIGN(const MountFacts top, context.inspector.Facts(mount_id));
  if (top.peer_group == 0) {
    return UnmountPrivate(context, dir, name, top, below, object);
  }
  MOUNTD_ASSIGN(UniqueFd fd, OpenTop(context, dir, name, top, object));
  // This clone stays in the peer group, so that JoinAgain can put the mount
  // back. If the clone fails, the unmount continues without it.
  const exec::Sys<UniqueFd> peer = context.kernel.CloneTree(fd.get(), false);
  MOUNTD_TRY(LeaveGroup(context, fd, object));
  fd.reset();  // an open descriptor keeps the mount busy
  const Result<void> outcome =
      UnmountPrivate(context, dir, name, top, below, object);
  if (!outcome && peer) {
    JoinAgain(context, *peer, dir, name, top, object);
  }
  return outcome;
}

// Detaches the mount even while it is in use. A bidirectional mount first
// leaves its peer group, so that the mounts below it stay in the source.
Result<void> UnmountLazily(const Context& context, int dir,
                           const std::string& name, std::uint64_t mount_id,
                           const std::string& object) {
  MOUNTD_ASSIGN(const MountFacts top, context.inspector.Facts(mount_id));
  if (top.peer_group != 0) {
    MOUNTD_ASSIGN(const UniqueFd fd, OpenTop(context, dir, name, top, object));
    MOUNTD_TRY(LeaveGroup(context, fd, object));
  }
  // MNT_DETACH takes the mounts below along, and the last user's end frees them
  // (umount(2)).
  return Named(context.kernel.Unmount(dir, name, MNT_DETACH), "umount2",
               object);
}

// Unmounts the mount that an interrupted swap left beneath. Checks that this
// mount lies right on the base, because only executors mount there.
Result<void> UnmountBeneath(const Context& context, int task,
                            const std::string& name, exec::UnmountMode mode,
                            const std::string& object) {
  MOUNTD_ASSIGN(const FileFacts file,
                Named(context.kernel.Stat(task, name), "statx", object));
  if (!file.mount_root) {
    return Ok();
  }
  MOUNTD_ASSIGN(const FileFacts above,
                Named(context.kernel.Stat(task, ""), "statx", object));
  MOUNTD_ASSIGN(const MountFacts mount, context.inspector.Facts(file.mount_id));
  return mount.parent_id == above.mount_id
             ? UnmountTop(context, task, name, file.mount_id, mode, object)
             : Ok();
}

Result<void> RemovePoint(const Context& context, int task,
                         const std::string& name, const FileFacts& mounted,
                         const std::string& object) {
  exec::Kernel& kernel = context.kernel;
  const exec::Sys<void> removed = S_ISDIR(mounted.mode)
                                      ? kernel.RemoveDirectory(task, name)
                                      : kernel.RemoveFile(task, name);
  // rmdir and unlink answer EBUSY for a mountpoint.
  if (exec::FailedWith(removed, EBUSY)) {
    return MakeError(Code::kFailedPrecondition, "umount2", object,
                     "another mount is beneath it");
  }
  if (!removed && removed.error() != ENOENT) {
    return ErrnoError(removed.error(), "unlinkat", object);
  }
  return Ok();
}

}  // namespace

Result<void> UnmountTop(const Context& context, int dir,
                        const std::string& name, std::uint64_t mount_id,
                        exec::UnmountMode mode, const std::string& object) {
  switch (mode) {
    case exec::UnmountMode::kDetach:
      return UnmountLazily(context, dir, name, mount_id, object);
    case exec::UnmountMode::kForce:
      // Some file systems, such as NFS, give up pending requests at MNT_FORCE
      // (umount(2)).
      if (context.kernel.Unmount(dir, name, MNT_FORCE)) {
        return Ok();
      }
      break;  // EBUSY if requests were pending; MNT_FORCE has ended them
    case exec::UnmountMode::kAbort:
      MOUNTD_TRY(AbortConnection(context, mount_id, object));
      break;
    case exec::UnmountMode::kPlain:
      break;
  }
  const exec::Sys<void> unmounted = context.kernel.Unmount(dir, name, 0);
  // Mounts below keep the target busy, so unmount those first.
  if (exec::FailedWith(unmounted, EBUSY)) {
    return UnmountTree(context, dir, name, mount_id, object);
  }
  return Named(unmounted, "umount2", object);
}

Result<void> DetachFile(const Context& context, int task,
                        const std::string& name, const FileFacts& file,
                        exec::UnmountMode mode, const std::string& object) {
  if (S_ISLNK(file.mode)) {
    return DetachOutside(context, task, name, mode, object);
  }
  if (file.mount_root) {
    MOUNTD_TRY(UnmountTop(context, task, name, file.mount_id, mode, object));
    MOUNTD_TRY(UnmountBeneath(context, task, name, mode, object));
  }
  return RemovePoint(context, task, name, file, object);
}

Result<void> Detach(const Context& context, const exec::DetachPlan& plan) {
  exec::Kernel& kernel = context.kernel;
  const std::string name = Text(plan.target.name);
  const std::string task_name = Text(plan.target.task);
  const std::string object =
      Text(plan.target.allocation) + "/" + task_name + "/" + name;
  MOUNTD_ASSIGN(const Base base, OpenBase(context));
  const Result<UniqueFd> allocation =
      OpenAllocation(context, base, plan.target.allocation);
  if (!allocation) {
    return allocation.error().sys_errno == ENOENT
               ? Ok()
               : Result<void>(allocation.error());
  }
  const Result<UniqueFd> task =
      OpenBeneath(context, allocation->get(), task_name, object);
  if (!task) {
    return task.error().sys_errno == ENOENT ? Ok() : Result<void>(task.error());
  }
  const exec::Sys<FileFacts> file = kernel.Stat(task->get(), name);
  // FUSE tells root nothing of a user's own mount.
  if (exec::FailedWith(file, EACCES)) {
    return MakeError(Code::kFailedPrecondition, "umount2", object,
                     "a user's FUSE mount covers it; unmount that one first");
  }
  // ENOENT: no place for the mount is left, so no mount either.
  if (!file && file.error() != ENOENT) {
    return ErrnoError(file.error(), "statx", object);
  }
  if (file) {
    MOUNTD_ASSIGN(const MountState now,
                  StateAt(context, task->get(), name, *file, object));
    if (now.mount_id != 0 && now.mount_id != plan.mount_id) {
      return MakeError(Code::kFailedPrecondition, "umount2", object,
                       "another mount is at its place");
    }
  }
  if (file) {
    MOUNTD_TRY(
        DetachFile(context, task->get(), name, *file, plan.mode, object));
  }
  return RemoveTaskIfUnused(context, *allocation, task_name, object);
}

}  // namespace mountd::propagation
