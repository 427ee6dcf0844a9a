// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/anchor.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "mountd/base/paths.h"
#include "propagation/ground/host_path.h"
#include "propagation/marker.h"
#include "propagation/residence.h"

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::Named;

// Opens base/h, where each anchored volume has a directory with its marker.
Result<UniqueFd> OpenMarkers(const Context& context, const Base& base,
                             const std::string& volume) {
  return OpenBeneath(context, base.fd.get(), paths::kAnchors, volume);
}

// Returns whether the volume's marker names `mount_id`.
Result<bool> IsMarked(const Context& context, const UniqueFd& markers,
                      const std::string& volume, std::uint64_t mount_id) {
  MOUNTD_ASSIGN(const Marker marker,
                ReadMarker(context, markers.get(), volume));
  return marker.id == mount_id;
}

Result<bool> HasMountsBelow(const Context& context, const Source& source,
                            const std::string& path) {
  MOUNTD_ASSIGN(const std::vector<MountFacts> mounts,
                context.inspector.Children(source.file.mount_id));
  // The mount's children are enough, because every deeper mount below the path
  // lies on one of them.
  for (const MountFacts& mount : mounts) {
    if (mount.point.starts_with(path + "/")) {
      return true;
    }
  }
  return false;
}

// Returns whether the source needs an anchor or has one. False for a mount that
// somebody else made, and for a directory with mounts that an anchor would
// hide.
Result<bool> NeedsAnchor(const Context& context, const UniqueFd& markers,
                         const std::string& volume, const std::string& path,
                         const Source& source) {
  if (source.file.mount_root) {
    return IsMarked(context, markers, volume, source.file.mount_id);
  }
  MOUNTD_ASSIGN(const bool mounts_below, HasMountsBelow(context, source, path));
  return !mounts_below;
}

// Describes the anchor for its marker by device, inode and path. Before Linux
// 6.8 the kernel reuses mount ids, so another mount may have the id of an
// anchor that is gone; device and inode tell that mount from the anchor in most
// cases.
std::string Described(const FileFacts& directory, const std::string& path) {
  return std::to_string(directory.device) + ":" +
         std::to_string(directory.inode) + " " + path;
}
std::string PathIn(const Marker& marker) {
  return marker.what.substr(marker.what.find(' ') + 1);
}

// FailedPrecondition if the configuration changed the volume's path while the
// anchor at the old path exists. The first anchor stays until it is released,
// because tasks still follow it.
Result<void> CheckNotElsewhere(const Context& context, const UniqueFd& markers,
                               const std::string& volume,
                               const std::string& path) {
  MOUNTD_ASSIGN(const Marker marker,
                ReadMarker(context, markers.get(), volume));
  if (marker.id == 0 || PathIn(marker) == path ||
      !context.inspector.Facts(marker.id)) {
    return Ok();
  }
  return MakeError(
      Code::kFailedPrecondition, "anchor", volume,
      "is still mounted from its earlier path; unmount its mounts first");
}

// Unmounts the anchor at the path the kernel reports. The reported path differs
// from the path the anchor was made for once a directory above it has been
// renamed. An anchor that is already gone is success.
Result<void> UnmountAnchor(const Context& context, const std::string& volume,
                           const Marker& marker, int flags) {
  const Result<MountFacts> anchor = context.inspector.Facts(marker.id);
  if (!anchor) {
    return anchor.error().code == Code::kNotFound
               ? Ok()
               : Result<void>(anchor.error());
  }
  MOUNTD_ASSIGN(const HostPath path,
                OpenHostPath(context, anchor->point, volume));
  MOUNTD_ASSIGN(const FileFacts top,
                Named(context.kernel.Stat(path.parent.get(), path.name),
                      "statx", volume));
  // umount2(2) removes the top mount at a path. Another mount there is not
  // mountd's.
  if (top.mount_id != marker.id || !top.mount_root) {
    return MakeError(Code::kFailedPrecondition, "umount2", volume,
                     "another mount is at its place");
  }
  if (Described(top, PathIn(marker)) != marker.what) {
    return Ok();  // the anchor is gone, and its id was reused
  }
  return Named(context.kernel.Unmount(path.parent.get(), path.name, flags),
               "umount2", volume);
}

// Detaches an anchor that must not stay. Tries repeatedly, because a rename of
// a directory above between the look and the unmount makes one try fail.
void UndoAnchor(const Context& context, const std::string& volume,
                const Marker& marker) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    // MNT_DETACH, because a process of the host may have opened a file in the
    // anchor by now, and EBUSY would leave the anchor behind.
    if (UnmountAnchor(context, volume, marker, MNT_DETACH)) {
      return;
    }
  }
}

Result<void> MakeAnchor(const Context& context, const std::string& volume,
                        const std::string& path, Source* source,
                        exec::Undo* undo) {
  exec::Kernel& kernel = context.kernel;
  // The anchor needs no mounts below the directory, because NeedsAnchor refuses
  // directories with such mounts.
  MOUNTD_ASSIGN(
      const UniqueFd tree,
      Named(kernel.CloneTree(source->fd.get(), false), "open_tree", volume));
  // This takes the clone out of the peer group of the mount it was cloned from;
  // it gets a group of its own once it is attached. In a mount namespace of
  // mountd's own the clone stays a slave, so that it keeps following the host's
  // mount.
  const std::uint64_t apart = IsApart(context) ? MS_SLAVE : MS_PRIVATE;
  MOUNTD_TRY(Named(kernel.SetMount(tree.get(), false, {.propagation = apart}),
                   "mount_setattr", volume));
  MOUNTD_ASSIGN(const FileFacts clone,
                Named(kernel.Stat(tree.get(), ""), "statx", volume));
  const Marker marker{clone.mount_id, Described(clone, path)};
  // Write the marker before attaching, so that a kill leaves no anchor without
  // one.
  MOUNTD_TRY(WriteMarker(context, source->lock.get(), marker, volume));
  undo->Add([&context, source, volume] {
    IgnoreBecauseBestEffort(RemoveMarker(context, source->lock.get(), volume));
  });
  MOUNTD_TRY(Named(kernel.AttachTree(tree.get(), source->fd.get()),
                   "move_mount", volume));
  undo->Add(
      [&context, volume, marker] { UndoAnchor(context, volume, marker); });
  // If the parent mount is private, the kernel does not share a mount that is
  // attached to it, so share the clone here.
  MOUNTD_TRY(
      Named(kernel.SetMount(tree.get(), false, {.propagation = MS_SHARED}),
            "mount_setattr", volume));
  source->anchor_id = clone.mount_id;
  return Ok();
}

// Opens the directory `name` in the volume's parent again, and reads the facts
// of the mount that is there now.
Result<void> OpenAgain(const Context& context, const std::string& volume,
                       const std::string& name, Source* source) {
  MOUNTD_ASSIGN(source->fd,
                OpenBeneath(context, source->parent.get(), name, volume));
  MOUNTD_ASSIGN(source->file, Named(context.kernel.Stat(source->fd.get(), ""),
                                    "statx", volume));
  MOUNTD_ASSIGN(source->mount, context.inspector.Facts(source->file.mount_id));
  return Ok();
}

}  // namespace

Result<void> AnchorHostVolume(const Context& context, const Base& base,
                              const std::string& volume,
                              const std::string& path, const std::string& name,
                              Source* source, exec::Undo* undo) {
  // No mount can lie below a file, so a file needs no anchor.
  if (!S_ISDIR(source->file.mode)) {
    return Ok();
  }
  MOUNTD_ASSIGN(source->markers, OpenMarkers(context, base, volume));
  MOUNTD_ASSIGN(const bool needed,
                NeedsAnchor(context, source->markers, volume, path, *source));
  if (!needed) {
    return Ok();
  }
  MOUNTD_ASSIGN(source->lock,
                LockMarker(context, source->markers.get(), volume));
  undo->Add([&context, source, volume] {
    RemoveIfEmpty(context, source->markers.get(), volume);
  });
  // Look again under the lock, because another executor may have made the
  // anchor before this one got the lock.
  MOUNTD_TRY(OpenAgain(context, volume, name, source));
  if (source->file.mount_root) {
    MOUNTD_ASSIGN(const bool ours, IsMarked(context, source->markers, volume,
                                            source->file.mount_id));
    source->anchor_id = ours ? source->file.mount_id : 0;
    if (ours && source->mount.peer_group == 0) {
      // An executor was killed after it attached the anchor and before it
      // shared it.
      MOUNTD_TRY(Named(context.kernel.SetMount(source->fd.get(), false,
                                               {.propagation = MS_SHARED}),
                       "mount_setattr", volume));
      MOUNTD_TRY(OpenAgain(context, volume, name, source));
    }
    return Ok();
  }
  const MountFacts holder = source->mount;
  MOUNTD_TRY(CheckNotElsewhere(context, source->markers, volume, path));
  MOUNTD_TRY(MakeAnchor(context, volume, path, source, undo));
  MOUNTD_TRY(OpenAgain(context, volume, name, source));
  // The mount at the path must be the new anchor, on the mount seen before, in
  // a group of its own. Anything else means that somebody mounted or renamed
  // here.
  if (source->file.mount_id != source->anchor_id ||
      source->mount.parent_id != holder.id || source->mount.peer_group == 0 ||
      source->mount.peer_group == holder.peer_group) {
    return MakeError(
        Code::kAborted, "anchor", volume,
        "something mounted on or moved its directory meanwhile; call again");
  }
  return Ok();
}

Result<void> ReleaseHostVolume(const Context& context,
                               const exec::AnchorPlan& plan) {
  const std::string volume = Text(plan.source);
  MOUNTD_ASSIGN(const Base base, OpenBase(context));
  MOUNTD_ASSIGN(const UniqueFd markers, OpenMarkers(context, base, volume));
  MOUNTD_ASSIGN(const UniqueFd lock,
                LockMarker(context, markers.get(), volume));
  MOUNTD_ASSIGN(const Marker marker,
                ReadMarker(context, markers.get(), volume));
  if (marker.id == 0 || (plan.anchor_id != 0 && plan.anchor_id != marker.id)) {
    RemoveIfEmpty(context, markers.get(), volume);
    return Ok();
  }
  // In a mount namespace of mountd's own, everything mounted in the anchor is a
  // copy of a host's mount, so detaching those with it loses nothing.
  MOUNTD_TRY(UnmountAnchor(context, volume, marker,
                           IsApart(context) ? MNT_DETACH : 0));
  // Remove the marker after the anchor. A kill in between leaves a marker
  // without a mount, which the next release removes. An anchor without a marker
  // would count as somebody else's mount, and no release would remove the
  // anchor.
  MOUNTD_TRY(RemoveMarker(context, lock.get(), volume));
  return Named(context.kernel.RemoveDirectory(markers.get(), volume),
               "unlinkat", volume);
}

}  // namespace mountd::propagation
