// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/volume_mounts.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <string_view>
#include <utility>

namespace mountd::csi_local {
namespace {

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() &&
         text.substr(text.size() - end.size()) == end;
}

}  // namespace

VolumeMounts::VolumeMounts(const DataDirectory& data,
                           const VolumeRecord& record)
    : data_(data),
      kind_(record.content().kind()),
      mountable_(record.content().access() != ACCESS_BLOCK),
      number_(record.loop_number()),
      id_(record.id()),
      label_(data.LabelOf(record.id())) {}

bool VolumeMounts::IsLoop(dev_t device) const {
  return kind_ == IMAGE && number_ != 0 && device == LoopDeviceId(number_);
}

Result<bool> VolumeMounts::IsDirectoryAt(const UniqueFd& fd,
                                         const DirectoryState& there) const {
  const Result<UniqueFd> directory =
      OpenDirectoryAt(data_.volumes().get(), id_);
  if (directory) {
    MOUNTD_ASSIGN(const DirectoryState own, Inspect(*directory));
    return there.SameDirectory(own);
  }
  // Somebody has deleted the directory; its mounts must still be found and
  // removed.
  MOUNTD_ASSIGN(const MountEntry entry, MountOf(fd));
  return EndsWith(entry.root, "/volumes/" + id_ + "//deleted");
}

Result<bool> VolumeMounts::IsAt(const UniqueFd& fd) const {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) {
    return ErrnoError(errno, "fstat", id_);
  }
  if (S_ISBLK(status.st_mode)) {
    // Compares the number only, because the number belongs to the volume, and a
    // task may bind any file to the device.
    return IsLoop(status.st_rdev);
  }
  MOUNTD_ASSIGN(const DirectoryState there, Inspect(fd));
  if (!there.is_mount_root) {
    return false;
  }
  if (kind_ == DIRECTORY) {
    return IsDirectoryAt(fd, there);
  }
  if (kind_ == IMAGE) {
    if (!mountable_ || !IsLoop(there.device)) {
      return false;
    }
    MOUNTD_ASSIGN(const auto loop, Loop());
    return loop.has_value();
  }
  MOUNTD_ASSIGN(const MountEntry entry, MountOf(fd));
  return IsOf(entry);
}

bool VolumeMounts::IsOf(const MountEntry& entry) const {
  switch (kind_) {
    case TMPFS:
      return entry.fs_type == "tmpfs" && entry.source == label_;
    case IMAGE:
      return mountable_ && IsLoop(entry.device);
    default:
      return EndsWith(entry.root, "/volumes/" + id_) ||
             EndsWith(entry.root, "/volumes/" + id_ + "//deleted");
  }
}

Result<std::vector<MountEntry>> VolumeMounts::All() const {
  MOUNTD_ASSIGN(std::vector<MountEntry> table, ReadMountTable());
  std::vector<MountEntry> found;
  for (MountEntry& entry : table) {
    if (!IsOf(entry)) {
      continue;
    }
    // Checks the mount point, because a name below "/volumes/" may belong to
    // another data directory.
    const UniqueFd point(::open(entry.point.c_str(),
                                O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (point.valid()) {
      MOUNTD_ASSIGN(const bool ours, IsAt(point));
      if (ours) {
        found.push_back(std::move(entry));
      }
    }
  }
  return found;
}

Result<std::optional<LoopDevice>> VolumeMounts::Loop() const {
  if (kind_ != IMAGE || number_ == 0) {
    return std::optional<LoopDevice>();
  }
  MOUNTD_ASSIGN(auto loop, OpenLoop(number_));
  struct stat image {};
  if (!loop || ::fstatat(data_.volumes().get(), id_.c_str(), &image,
                         AT_SYMLINK_NOFOLLOW) != 0) {
    // Somebody has deleted the image, so only the label can identify the
    // device.
    return loop && loop->label == label_ ? std::move(loop) : std::nullopt;
  }
  const bool bound =
      loop->image_device == image.st_dev && loop->image_inode == image.st_ino;
  return bound ? std::move(loop) : std::nullopt;
}

Result<std::optional<UniqueFd>> OpenMounted(const VolumeMounts& mounts) {
  MOUNTD_ASSIGN(const auto entries, mounts.All());
  for (const MountEntry& entry : entries) {
    UniqueFd root(::open(entry.point.c_str(),
                         O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (root.valid()) {
      MOUNTD_ASSIGN(const bool ours, mounts.IsAt(root));
      if (ours) {
        return std::optional(std::move(root));
      }
    }
  }
  return std::optional<UniqueFd>();
}

}  // namespace mountd::csi_local
