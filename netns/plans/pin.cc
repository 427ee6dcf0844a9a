// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/plans/pin.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "mountd/base/paths.h"

namespace mountd::netns {
namespace {

using exec::FileFacts;
using exec::Kernel;
using exec::Named;

constexpr std::uint64_t kNoLinks = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;

}  // namespace

Result<std::uint64_t> NsfsDevice(Kernel& kernel) {
  MOUNTD_ASSIGN(const UniqueFd own,
                Named(kernel.Open(exec::kFromRoot, "/proc/thread-self/ns/net",
                                  O_RDONLY, 0),
                      "openat2", "/proc/thread-self/ns/net"));
  MOUNTD_ASSIGN(const FileFacts facts,
                Named(kernel.Stat(own.get(), ""), "statx", "netns"));
  return facts.device;
}

Result<void> PrepareNetnsDirectory(Kernel& kernel) {
  const exec::Sys<void> made =
      kernel.MakeDirectory(exec::kFromRoot, paths::kNetnsDir, 0755);
  // EEXIST: ip-netns(8) and other programs use the same directory.
  if (!made && made.error() != EEXIST) {
    return ErrnoError(made.error(), "mkdirat", paths::kNetnsDir);
  }
  MOUNTD_ASSIGN(const UniqueFd dir, OpenNetnsDirectory(kernel));
  MOUNTD_ASSIGN(const FileFacts facts,
                Named(kernel.Stat(dir.get(), ""), "statx", paths::kNetnsDir));
  if (facts.mount_root) {
    return Ok();
  }
  // Recursive, so that the names which others have pinned stay visible.
  MOUNTD_ASSIGN(const UniqueFd tree, Named(kernel.CloneTree(dir.get(), true),
                                           "open_tree", paths::kNetnsDir));
  // The clone leaves the peer group of the mount that the directory lies in.
  // Shared again after the attach, it gets a group of its own.
  MOUNTD_TRY(
      Named(kernel.SetMount(tree.get(), false, {.propagation = MS_PRIVATE}),
            "mount_setattr", paths::kNetnsDir));
  MOUNTD_TRY(Named(kernel.AttachTree(tree.get(), dir.get()), "move_mount",
                   paths::kNetnsDir));
  return Named(kernel.SetMount(tree.get(), false, {.propagation = MS_SHARED}),
               "mount_setattr", paths::kNetnsDir);
}

Result<UniqueFd> OpenNetnsDirectory(Kernel& kernel) {
  MOUNTD_ASSIGN(UniqueFd dir,
                Named(kernel.Open(exec::kFromRoot, paths::kNetnsDir,
                                  O_PATH | O_DIRECTORY, kNoLinks),
                      "openat2", paths::kNetnsDir));
  MOUNTD_ASSIGN(const FileFacts facts,
                Named(kernel.Stat(dir.get(), ""), "statx", paths::kNetnsDir));
  if (facts.uid != 0 || (facts.mode & (S_IWGRP | S_IWOTH)) != 0) {
    return MakeError(Code::kFailedPrecondition, "check", paths::kNetnsDir,
                     "must belong to root and be writable by nobody else");
  }
  return dir;
}

Result<Pin> FindPin(Kernel& kernel, const PinPlace& place) {
  Pin pin;
  const exec::Sys<std::string> marker =
      kernel.ReadLink(place.markers, place.name);
  if (!marker && marker.error() != ENOENT) {
    return ErrnoError(marker.error(), "readlinkat", place.name);
  }
  pin.marked = marker.has_value();
  const exec::Sys<FileFacts> file = kernel.Stat(place.directory, place.name);
  if (!file && file.error() != ENOENT) {
    return ErrnoError(file.error(), "statx", place.name);
  }
  pin.exists = file.has_value();
  if (!file || !file->mount_root) {
    pin.ours = pin.marked;
    return pin;
  }
  if (file->device != place.nsfs) {
    return MakeError(
        Code::kFailedPrecondition, "check", place.name,
        "another mount is at the name of the namespace; unmount it");
  }
  pin.inode = file->inode;
  pin.ours = marker && *marker == std::to_string(pin.inode);
  return pin;
}

Result<void> MakePin(Kernel& kernel, const PinPlace& place, int netns,
                     exec::Undo* undo) {
  const auto& [directory, markers, nsfs, name] = place;
  MOUNTD_ASSIGN(const FileFacts facts,
                Named(kernel.Stat(netns, ""), "statx", name));
  // The marker comes first, so that a kill leaves no pin without one.
  MOUNTD_TRY(Named(kernel.MakeLink(std::to_string(facts.inode), markers, name),
                   "symlinkat", name));
  undo->Add([&kernel, &place] {
    IgnoreBecauseBestEffort(kernel.RemoveFile(place.markers, place.name));
  });
  MOUNTD_TRY(Named(kernel.MakeFile(directory, name, 0444), "openat", name));
  undo->Add([&kernel, &place] {
    IgnoreBecauseBestEffort(kernel.RemoveFile(place.directory, place.name));
  });
  MOUNTD_ASSIGN(const UniqueFd point,
                Named(kernel.Open(directory, name, O_PATH | O_NOFOLLOW,
                                  RESOLVE_BENEATH | kNoLinks),
                      "openat2", name));
  MOUNTD_ASSIGN(const UniqueFd tree,
                Named(kernel.CloneTree(netns, false), "open_tree", name));
  MOUNTD_TRY(
      Named(kernel.AttachTree(tree.get(), point.get()), "move_mount", name));
  undo->Add([&kernel, &place] {
    // MNT_DETACH, because a process may have opened the name already.
    IgnoreBecauseBestEffort(
        kernel.Unmount(place.directory, place.name, MNT_DETACH));
  });
  return Ok();
}

Result<void> RemovePin(Kernel& kernel, const PinPlace& place, const Pin& pin) {
  const auto remove = [&](int directory) -> Result<void> {
    const exec::Sys<void> removed = kernel.RemoveFile(directory, place.name);
    return removed || removed.error() == ENOENT
               ? Ok()
               : Result<void>(
                     ErrnoError(removed.error(), "unlinkat", place.name));
  };
  if (pin.ours && pin.inode != 0) {
    // Lazily, because the name must go, and a process that has the namespace's
    // file open keeps the namespace anyway.
    MOUNTD_TRY(Named(kernel.Unmount(place.directory, place.name, MNT_DETACH),
                     "umount2", place.name));
  }
  if (pin.ours && pin.exists) {
    MOUNTD_TRY(remove(place.directory));
  }
  return pin.marked ? remove(place.markers) : Ok();
}

}  // namespace mountd::netns
