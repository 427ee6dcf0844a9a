// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/filesystem.h"

#include <sys/mount.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "mountd/base/paths.h"
#include "mountd/config/config_filesystem.h"
#include "propagation/marker.h"
#include "propagation/mount_helper.h"
#include "propagation/probe.h"

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::Named;

constexpr char kPoint[] = "fs";
// Only root passes to the mount itself, because users get clones.
constexpr unsigned kPointMode = 0700;

// A child that the executor gave up may mount late, so mounts may be stacked.
constexpr int kMostStacked = 8;

std::string PathOf(const std::string& name) {
  return std::string(paths::kBase) + "/" + paths::kFilesystems + "/" + name +
         "/" + kPoint;
}

// Returns the declaration as one text for the marker. No part of the text has a
// space in it.
std::string TextOf(const FilesystemConfig& declared) {
  std::string text = declared.type + " " + declared.source;
  text += declared.read_only ? " ro" : " rw";
  for (const std::string& option : declared.options) {
    text += " " + option;
  }
  return text;
}

// The kernel names NFS mounts by version ("nfs4") and FUSE mounts without their
// server ("fuse").
bool IsOfType(const std::string& mounted, const std::string& declared) {
  return mounted == declared ||
         (mounted.starts_with("nfs") && declared.starts_with("nfs")) ||
         (mounted == "fuse" && declared.starts_with("fuse."));
}

Result<bool> IsMounted(const Context& context, const UniqueFd& dir,
                       const std::string& name) {
  const exec::Sys<FileFacts> point = context.kernel.Stat(dir.get(), kPoint);
  if (!point && point.error() != ENOENT) {
    return ErrnoError(point.error(), "statx", name);
  }
  return point && point->mount_root;
}

Result<void> UnmountAll(const Context& context, const UniqueFd& dir,
                        const std::string& name, int flags) {
  MOUNTD_ASSIGN(bool mounted, IsMounted(context, dir, name));
  for (int left = kMostStacked; mounted && left > 0; --left) {
    MOUNTD_TRY(Named(context.kernel.Unmount(dir.get(), kPoint, flags),
                     "umount2", name));
    MOUNTD_ASSIGN(mounted, IsMounted(context, dir, name));
  }
  return mounted ? Result<void>(
                       MakeError(Code::kAborted, "umount2", name,
                                 "another program mounts it again and again"))
                 : Ok();
}

Result<void> RunMount(const Context& context, const FilesystemConfig& declared,
                      const std::string& name, int lock) {
  // A quarter of the plan's time stays for undoing what the child did.
  const std::chrono::milliseconds limit = context.config.timeouts.plan * 3 / 4;
  // The child keeps the lock's descriptor. flock(2) releases a lock with the
  // last descriptor of its open file, so a child that cannot be killed keeps
  // other plans from mounting here as long as it may still mount.
  const exec::Sys<std::uint8_t> status = context.kernel.RunChild(
      [&declared, path = PathOf(name)] {
        return MountByLibmount(declared, path);
      },
      std::span(&lock, 1), limit);
  // ETIMEDOUT: RunChild has killed the child, which may hang in a mount helper.
  if (exec::FailedWith(status, ETIMEDOUT)) {
    return MakeError(Code::kDeadlineExceeded, "mount", name,
                     "took too long, so mountd killed its mount program; check "
                     "its server or device");
  }
  MOUNTD_ASSIGN(const std::uint8_t ended,
                exec::NamedOfChild(status, "mount", name));
  return MountOutcome(ended, declared, name);
}

Result<void> CheckMounted(const Base& base, const FilesystemConfig& declared,
                          const Source& source, const std::string& name) {
  std::string why;
  if (!source.file.mount_root ||
      source.mount.parent_id != base.facts.mount_id) {
    why = "another mount is at its place";
  } else if (!IsOfType(source.mount.type, declared.type)) {
    why = "its place has a file system of another type: " + source.mount.type;
  } else if (source.file.device == base.facts.device) {
    why = "its source is the file system of mountd's own directories";
  } else {
    return Ok();
  }
  return MakeError(Code::kFailedPrecondition, "mount", name, why);
}

Result<void> OpenPoint(const Context& context, const std::string& name,
                       Source* source) {
  MOUNTD_ASSIGN(source->fd,
                OpenBeneath(context, source->lock.get(), kPoint, name));
  MOUNTD_ASSIGN(source->file, Named(context.kernel.Stat(source->fd.get(), ""),
                                    "statx", name));
  MOUNTD_ASSIGN(source->mount, context.inspector.Facts(source->file.mount_id));
  return Ok();
}

// Takes the mount out of the peer group that mounting below the base gave it,
// and then gives it a group of its own. Sets the flags again, because a mount
// helper may not have passed them on.
Result<void> Settle(const Context& context, const FilesystemConfig& declared,
                    const std::string& name, const Source& source) {
  exec::MountChange change;
  change.set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  change.set |= declared.read_only ? MOUNT_ATTR_RDONLY : 0;
  change.propagation = MS_PRIVATE;
  MOUNTD_TRY(Named(context.kernel.SetMount(source.fd.get(), false, change),
                   "mount_setattr", name));
  return Named(context.kernel.SetMount(source.fd.get(), false,
                                       {.propagation = MS_SHARED}),
               "mount_setattr", name);
}

Result<void> Mount(const Context& context, const Base& base,
                   const FilesystemConfig& declared, const std::string& name,
                   Source* source, exec::Undo* undo) {
  MOUNTD_TRY(EnsureDirectory(context, source->lock.get(), kPoint, kPointMode,
                             name, undo));
  undo->Add([&context, source, name] {
    source->fd.reset();
    // MNT_DETACH, because a process may have found the mount already and use
    // it.
    IgnoreBecauseBestEffort(
        UnmountAll(context, source->lock, name, MNT_DETACH));
    IgnoreBecauseBestEffort(RemoveMarker(context, source->lock.get(), name));
  });
  MOUNTD_TRY(RunMount(context, declared, name, source->lock.get()));
  MOUNTD_TRY(OpenPoint(context, name, source));
  MOUNTD_TRY(CheckMounted(base, declared, *source, name));
  MOUNTD_TRY(Settle(context, declared, name, *source));
  // Write the marker last, because a mount without one counts as left over.
  return WriteMarker(context, source->lock.get(),
                     {source->file.mount_id, TextOf(declared)}, name);
}

// Returns whether the file system's server is gone for good. A server that does
// not answer now may answer later, and other users need its files.
Result<bool> IsDead(const Context& context, const FilesystemConfig& declared,
                    const std::string& name, const Source& source) {
  // FUSE answers ENOTCONN when its server has died, and ECONNABORTED after an
  // abort if the server asked for that (FUSE_ABORT_ERROR, linux/fuse.h). NFS
  // answers ESTALE for an export that the server no longer has.
  constexpr std::array kGone = {ENOTCONN, ECONNABORTED, ESTALE};
  // A file system on a device has no server that could be gone.
  if (IsOnDevice(declared.type)) {
    return false;
  }
  // Ask through a clone, so that the question keeps nothing in use.
  MOUNTD_ASSIGN(const UniqueFd clone, CloneToAsk(context, source.fd, name));
  MOUNTD_ASSIGN(
      const exec::ProbeOutcome outcome,
      exec::NamedOfChild(context.kernel.ProbeFilesystem(
                             clone.get(), context.config.timeouts.probe_answer),
                         "fork", name));
  return !outcome.timed_out &&
         std::find(kGone.begin(), kGone.end(), outcome.error) != kGone.end();
}

// Detaches a dead mount. The mount leaves its peer group first, so that users'
// clones and the mounts in them stay.
Result<void> TakeAway(const Context& context, const std::string& name,
                      Source* source) {
  MOUNTD_TRY(Named(context.kernel.SetMount(source->fd.get(), true,
                                           {.propagation = MS_PRIVATE}),
                   "mount_setattr", name));
  source->fd.reset();
  MOUNTD_TRY(UnmountAll(context, source->lock, name, MNT_DETACH));
  return RemoveMarker(context, source->lock.get(), name);
}

// Returns whether the file system is mounted as declared and alive. Detaches a
// mount that an interrupted plan left, and a dead one.
Result<bool> IsThere(const Context& context, const FilesystemConfig& declared,
                     const std::string& name, Source* source) {
  MOUNTD_ASSIGN(const bool mounted, IsMounted(context, source->lock, name));
  if (!mounted) {
    return false;
  }
  MOUNTD_TRY(OpenPoint(context, name, source));
  MOUNTD_ASSIGN(const Marker marker,
                ReadMarker(context, source->markers.get(), name));
  if (marker.id != source->file.mount_id) {
    source->fd.reset();
    MOUNTD_TRY(UnmountAll(context, source->lock, name, MNT_DETACH));
    return false;
  }
  MOUNTD_ASSIGN(const bool dead, IsDead(context, declared, name, *source));
  if (dead) {
    MOUNTD_TRY(TakeAway(context, name, source));
    return false;
  }
  if (marker.what != TextOf(declared)) {
    return MakeError(
        Code::kFailedPrecondition, "mount", name,
        "is still mounted as declared before; unmount its mounts first");
  }
  return true;
}

}  // namespace

Result<void> OpenFilesystem(const Context& context, const Base& base,
                            const exec::AttachPlan& plan, Source* source,
                            exec::Undo* undo) {
  const std::string name = Text(plan.source.filesystem);
  const auto found = context.config.filesystems.find(name);
  if (found == context.config.filesystems.end()) {
    return MakeError(Code::kNotFound, "open source", name,
                     "is not declared in mountd.toml");
  }
  const FilesystemConfig& declared = found->second;
  if (std::find(declared.propagation.begin(), declared.propagation.end(),
                plan.propagation) == declared.propagation.end()) {
    return MakeError(Code::kPermissionDenied, "open source", name,
                     "is not declared with this propagation; use another or "
                     "add it in mountd.toml");
  }
  source->read_only = declared.read_only;
  MOUNTD_ASSIGN(source->markers,
                OpenBeneath(context, base.fd.get(), paths::kFilesystems, name));
  MOUNTD_ASSIGN(source->lock, LockMarker(context, source->markers.get(), name));
  undo->Add([&context, source, name] {
    RemoveIfEmpty(context, source->markers.get(), name);
  });
  MOUNTD_ASSIGN(const bool there, IsThere(context, declared, name, source));
  if (!there) {
    MOUNTD_TRY(Mount(context, base, declared, name, source, undo));
  }
  MOUNTD_TRY(OpenPoint(context, name, source));
  MOUNTD_TRY(CheckMounted(base, declared, *source, name));
  source->anchor_id = source->file.mount_id;
  return Ok();
}

Result<void> ReleaseFilesystem(const Context& context,
                               const exec::AnchorPlan& plan) {
  const std::string name = Text(plan.source);
  MOUNTD_ASSIGN(const Base base, OpenBase(context));
  MOUNTD_ASSIGN(const UniqueFd all,
                OpenBeneath(context, base.fd.get(), paths::kFilesystems, name));
  MOUNTD_ASSIGN(const UniqueFd dir, LockMarker(context, all.get(), name));
  MOUNTD_ASSIGN(const Marker marker, ReadMarker(context, all.get(), name));
  if (plan.anchor_id != 0 && marker.id != 0 && plan.anchor_id != marker.id) {
    return Ok();
  }
  MOUNTD_TRY(UnmountAll(context, dir, name, 0));
  MOUNTD_TRY(RemoveMarker(context, dir.get(), name));
  const exec::Sys<void> removed =
      context.kernel.RemoveDirectory(dir.get(), kPoint);
  if (!removed && removed.error() != ENOENT) {
    return ErrnoError(removed.error(), "unlinkat", name);
  }
  return Named(context.kernel.RemoveDirectory(all.get(), name), "unlinkat",
               name);
}

}  // namespace mountd::propagation
