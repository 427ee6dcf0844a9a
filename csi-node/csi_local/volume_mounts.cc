// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi_local/volume_mounts.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

namespace mountd::csi_local {
namespace {

// A device may be held by whoever looks at new devices, or by another mount
// namespace that is just going.
constexpr int kUseTries = 100;
constexpr std::chrono::milliseconds kUsePause(20);

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() &&
         text.substr(text.size() - end.size()) == end;
}

}  // namespace

VolumeMounts::VolumeMounts(const DataDirectory& data,
                           const VolumeRecord& record)
    : data_(data),
      kind_(record.content().kind()),
      id_(record.id()),
      label_(data.LabelOf(record.id())) {}

Result<bool> VolumeMounts::IsDirectoryAt(const UniqueFd& fd,
                                         const DirectoryState& there) const {
  const Result<UniqueFd> directory =
      OpenDirectoryAt(data_.volumes().get(), id_);
  if (directory) {
    MOUNTD_ASSIGN(const DirectoryState own, Inspect(*directory));
    return there.SameDirectory(own);
  }
  // Somebody has deleted it; its mounts must go all the same.
  MOUNTD_ASSIGN(const MountEntry entry, MountOf(fd));
  return EndsWith(entry.root, "/volumes/" + id_ + "//deleted");
}

Result<bool> VolumeMounts::IsAt(const UniqueFd& fd) const {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) {
    return ErrnoError(errno, "fstat", id_);
  }
  if (S_ISBLK(status.st_mode)) {
    return kind_ == IMAGE && LoopLabelOf(status.st_rdev) == label_;
  }
  MOUNTD_ASSIGN(const DirectoryState there, Inspect(fd));
  if (!there.is_mount_root) {
    return false;
  }
  if (kind_ == DIRECTORY) {
    return IsDirectoryAt(fd, there);
  }
  if (kind_ == IMAGE) {
    return LoopLabelOf(there.device) == label_;
  }
  MOUNTD_ASSIGN(const MountEntry entry, MountOf(fd));
  return IsOf(entry);
}

bool VolumeMounts::IsOf(const MountEntry& entry) const {
  switch (kind_) {
    case TMPFS:
      return entry.fs_type == "tmpfs" && entry.source == label_;
    case IMAGE:
      return LoopLabelOf(entry.device) == label_;
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
    // Of a directory the name has told; whose data directory it is in has not.
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
  return kind_ == IMAGE
             ? FindLoop(label_)
             : Result<std::optional<LoopDevice>>(std::optional<LoopDevice>());
}

Result<bool> VolumeMounts::InUseNow() const {
  MOUNTD_ASSIGN(const auto loop, Loop());
  if (loop) {
    return true;
  }
  MOUNTD_ASSIGN(const auto mounts, All());
  return !mounts.empty();
}

Result<bool> VolumeMounts::InUse() const {
  for (int i = 0; i < kUseTries; ++i) {
    MOUNTD_ASSIGN(const auto mounts, All());
    MOUNTD_ASSIGN(const auto loop, Loop());
    if (!mounts.empty() || (loop && !loop->autoclear)) {
      return true;
    }
    if (!loop) {
      return false;
    }
    std::this_thread::sleep_for(kUsePause);
  }
  return InUseNow();
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
