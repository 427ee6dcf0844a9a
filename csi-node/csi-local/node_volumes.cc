// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/node_volumes.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <memory>
#include <utility>
#include <vector>

#include "csi-node/csi-local/device_release.h"
#include "csi-node/csi-local/loop_device.h"
#include "csi-node/csi-local/volume_tree.h"

namespace mountd::csi_local {
namespace {

// VolumeCapability.AccessMode.SINGLE_NODE_MULTI_WRITER, the only offered mode
// that allows one volume at two targets.
constexpr int kSingleNodeMultiWriter = 7;
constexpr mode_t kTargetMode = 0755;
// Mounts can only be stacked by a race of two csi-locals.
constexpr int kMaxStacked = 8;

Result<void> CheckAccess(const Content& content, const std::string& volume,
                         const MountOptions& options) {
  if (!FitsAccess(content, options.block, options.fs_type)) {
    return MakeError(Code::kFailedPrecondition, "volume_capability", volume,
                     "a volume of this kind does not support this access");
  }
  return Ok();
}

bool IsReadOnly(const MountOptions& options) {
  return (options.attributes & MOUNT_ATTR_RDONLY) != 0;
}

// Returns the attributes that a mount of the volume has without being asked.
Result<std::uint64_t> OwnAttributes(const DataDirectory& data,
                                    const VolumeRecord& record) {
  if (record.content().kind() != DIRECTORY) {
    return std::uint64_t{0};
  }
  MOUNTD_ASSIGN(const UniqueFd directory,
                OpenDirectoryAt(data.volumes().get(), record.id()));
  MOUNTD_ASSIGN(const DirectoryState state, Inspect(directory));
  return state.attributes;
}

// Makes the target and attaches the mount. Removes the target again if
// attaching fails.
Result<void> AttachTarget(const Target& target, const UniqueFd& source,
                          const MountOptions& options) {
  bool made = false;
  MOUNTD_ASSIGN(const UniqueFd point,
                options.block
                    ? MakeFileAt(target, &made)
                    : MakeDirectoryAt(target.parent.get(), target.name,
                                      kTargetMode, &made));
  MOUNTD_ASSIGN(const UniqueFd tree, CloneTree(source));
  Result<void> attached = AttachTree(
      tree, point, options.block ? Contents::kDevice : Contents::kFiles,
      options.attributes);
  if (!attached && made) {
    IgnoreBecauseBestEffort(RemoveTarget(target));
  }
  return attached;
}

// True for the node of a removed loop device. The mount of such a node stays.
// No volume has that number now, and none gets it again soon.
bool IsNodeOfNothing(const UniqueFd& node) {
  struct stat status {};
  if (::fstat(node.get(), &status) != 0 || !S_ISBLK(status.st_mode)) {
    return false;
  }
  const int number = static_cast<int>(minor(status.st_rdev));
  if (status.st_rdev != LoopDeviceId(number)) {
    return false;
  }
  const auto loop = OpenLoop(number);
  return loop && !loop->has_value();
}

}  // namespace

Result<VolumeRecord> NodeVolumes::RecordForStage(const std::string& volume,
                                                 const MountOptions& options) {
  Result<VolumeRecord> record = store_->GetVolume(volume);
  if (record) {
    MOUNTD_TRY(CheckAccess(record->content(), volume, options));
    return record;
  }
  if (!options_.create_on_stage || record.error().code != Code::kNotFound) {
    return record;
  }
  MOUNTD_TRY(CheckAccess(Content(), volume, options));
  return store_->MakeOnStage(volume);
}

Result<void> NodeVolumes::StageMount(VolumeRecord record,
                                     const UniqueFd& staging,
                                     const MountOptions& options) {
  MOUNTD_ASSIGN(const DirectoryState there, Inspect(staging));
  if (!there.is_mount_root) {
    MOUNTD_ASSIGN(const UniqueFd tree, MakeTree(store_, &record));
    MOUNTD_TRY(PrepareRoot(store_, &record, tree, options.group));
    return AttachTree(tree, staging, Contents::kFiles, options.attributes);
  }
  MOUNTD_ASSIGN(const bool ours,
                VolumeMounts(store_->data(), record).IsAt(staging));
  if (!ours) {
    return MakeError(Code::kAlreadyExists, "stage", record.id(),
                     "another mount is at the staging path");
  }
  MOUNTD_ASSIGN(const std::uint64_t own, OwnAttributes(store_->data(), record));
  if (there.attributes != (own | options.attributes)) {
    return MakeError(
        Code::kAlreadyExists, "stage", record.id(),
        "is already staged with another capability; unstage it first");
  }
  return Ok();
}

Result<void> NodeVolumes::Stage(const std::string& volume,
                                const std::string& staging_path,
                                const MountOptions& options) {
  MOUNTD_ASSIGN(const auto held, store_->locks().Take({volume, staging_path}));
  MOUNTD_ASSIGN(const Target target, OpenTarget(staging_path));
  MOUNTD_ASSIGN(const UniqueFd staging, OpenDirectory(target));
  MOUNTD_ASSIGN(VolumeRecord record, RecordForStage(volume, options));
  return options.block ? MakeDevice(store_, &record, IsReadOnly(options))
                       : StageMount(std::move(record), staging, options);
}

Result<bool> NodeVolumes::IsPublishedAt(const VolumeRecord& record,
                                        const std::string& path) {
  const Result<Target> target = OpenTarget(path);
  const Result<UniqueFd> node =
      target ? OpenNode(*target) : Result<UniqueFd>(target.error());
  const Result<DirectoryState> there =
      node ? Inspect(*node) : Result<DirectoryState>(node.error());
  if (!there || !there->is_mount_root) {
    return false;
  }
  return VolumeMounts(store_->data(), record).IsAt(*node);
}

// True if a mount that is left needs the device. It may be at another staging
// path, or its NodeUnpublishVolume may come late.
Result<bool> NodeVolumes::IsDeviceNeeded(const VolumeRecord& record) {
  MOUNTD_ASSIGN(const auto mounted, VolumeMounts(store_->data(), record).All());
  return !mounted.empty();
}

Result<void> NodeVolumes::CheckUnpublished(const VolumeRecord& record) {
  MOUNTD_ASSIGN(const auto publications,
                store_->data().publications().List(record.id()));
  for (const Publication& publication : publications) {
    MOUNTD_ASSIGN(const bool published,
                  IsPublishedAt(record, publication.target_path));
    if (published) {
      return MakeError(Code::kFailedPrecondition, "unstage", record.id(),
                       "is still published; unpublish it first");
    }
  }
  return Ok();
}

Result<void> NodeVolumes::Unstage(const std::string& volume,
                                  const std::string& staging_path) {
  MOUNTD_ASSIGN(const auto held, store_->locks().Take({volume, staging_path}));
  MOUNTD_ASSIGN(VolumeRecord record, store_->GetVolume(volume));
  const Result<Target> target = OpenTarget(staging_path);
  // Without the parent there is no mount at the path.
  if (!target && target.error().code != Code::kNotFound) {
    return target.error();
  }
  if (target) {
    MOUNTD_TRY(TakeOff(*target, record));
  }
  if (record.content().kind() != IMAGE) {
    return Ok();
  }
  if (record.content().access() == ACCESS_BLOCK) {
    // A published device is a mount of its node, which IsDeviceNeeded does not
    // see.
    MOUNTD_TRY(CheckUnpublished(record));
  }
  MOUNTD_ASSIGN(const bool needed, IsDeviceNeeded(record));
  return needed ? Ok() : ReleaseDevice(store_, &record);
}

Result<void> NodeVolumes::TakeOff(const Target& target,
                                  const VolumeRecord& record) {
  for (int i = 0; i < kMaxStacked; ++i) {
    Result<UniqueFd> node = OpenNode(target);
    if (!node) {
      return node.error().code == Code::kNotFound ? Ok()
                                                  : Result<void>(node.error());
    }
    MOUNTD_ASSIGN(const DirectoryState there, Inspect(*node));
    if (!there.is_mount_root) {
      return Ok();
    }
    MOUNTD_ASSIGN(const bool ours,
                  VolumeMounts(store_->data(), record).IsAt(*node));
    if (!ours && !IsNodeOfNothing(*node)) {
      return MakeError(Code::kFailedPrecondition, "unmount", target.name,
                       "another mount is at this path");
    }
    node->reset();  // open, it would keep the mount busy
    MOUNTD_TRY(Unmount(target));
  }
  return MakeError(Code::kInternal, "unmount", target.name,
                   "another program mounted it again");
}

Result<void> NodeVolumes::CheckPublished(const UniqueFd& there,
                                         const VolumeRecord& record,
                                         const Publication& wanted,
                                         std::uint64_t attributes) {
  MOUNTD_ASSIGN(const bool ours,
                VolumeMounts(store_->data(), record).IsAt(there));
  if (!ours) {
    return MakeError(Code::kAlreadyExists, "publish", record.id(),
                     "another mount is at the target path");
  }
  MOUNTD_ASSIGN(const auto publications,
                store_->data().publications().List(record.id()));
  for (const Publication& found : publications) {
    if (found.target_path == wanted.target_path && found != wanted) {
      return MakeError(
          Code::kAlreadyExists, "publish", record.id(),
          "is already published there in another mode; unpublish it first");
    }
  }
  MOUNTD_ASSIGN(const DirectoryState state, Inspect(there));
  if (state.attributes != attributes) {
    return MakeError(
        Code::kAlreadyExists, "publish", record.id(),
        "is already published there with other attributes; unpublish it first");
  }
  return Ok();
}

Result<void> NodeVolumes::CheckElsewhere(const VolumeRecord& record,
                                         const Publication& wanted) {
  Publications& publications = store_->data().publications();
  MOUNTD_ASSIGN(const auto list, publications.List(record.id()));
  for (const Publication& found : list) {
    if (found.target_path == wanted.target_path) {
      continue;
    }
    MOUNTD_ASSIGN(const bool holds, IsPublishedAt(record, found.target_path));
    if (!holds) {
      // The mount is gone, as after a reboot.
      MOUNTD_TRY(publications.Remove(record.id(), found.target_path));
      continue;
    }
    if (found.access_mode != wanted.access_mode ||
        wanted.access_mode != kSingleNodeMultiWriter) {
      return MakeError(Code::kFailedPrecondition, "publish", record.id(),
                       "is published elsewhere, but the access mode allows one "
                       "target; unpublish it there");
    }
  }
  return Ok();
}

Result<UniqueFd> NodeVolumes::StagedAt(const VolumeRecord& record,
                                       const std::string& staging_path,
                                       const MountOptions& options) {
  const Error not_staged =
      MakeError(Code::kFailedPrecondition, "publish", record.id(),
                "is not staged at the staging path; stage it first");
  const VolumeMounts mounts(store_->data(), record);
  if (!options.block) {
    const Result<Target> target = OpenTarget(staging_path);
    Result<UniqueFd> staging =
        target ? OpenDirectory(*target) : Result<UniqueFd>(target.error());
    const Result<bool> ours =
        staging ? mounts.IsAt(*staging) : Result<bool>(staging.error());
    return ours && *ours ? std::move(staging) : Result<UniqueFd>(not_staged);
  }
  MOUNTD_ASSIGN(const auto loop, mounts.Loop());
  if (!loop || record.releasing()) {
    return not_staged;
  }
  // Refuses, because a mount's read-only flag does not stop writes to a device.
  if (IsReadOnly(options) && !loop->read_only) {
    return MakeError(Code::kFailedPrecondition, "publish", record.id(),
                     "a device is read-only only if it is staged read-only");
  }
  UniqueFd node(::open(loop->Path().c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  MOUNTD_ASSIGN(const bool ours, mounts.IsAt(node));
  return ours ? Result<UniqueFd>(std::move(node))
              : Result<UniqueFd>(not_staged);
}

Result<void> NodeVolumes::Publish(const std::string& volume,
                                  const std::string& staging_path,
                                  const std::string& target_path,
                                  const MountOptions& options) {
  MOUNTD_ASSIGN(const auto held,
                store_->locks().Take({volume, staging_path, target_path}));
  MOUNTD_ASSIGN(const VolumeRecord record, store_->GetVolume(volume));
  MOUNTD_TRY(CheckAccess(record.content(), volume, options));
  MOUNTD_ASSIGN(const UniqueFd staged, StagedAt(record, staging_path, options));
  const Publication publication{options.access_mode, IsReadOnly(options),
                                target_path};
  MOUNTD_ASSIGN(const Target target, OpenTarget(target_path));
  const Result<UniqueFd> existing = OpenNode(target);
  if (!existing && existing.error().code != Code::kNotFound) {
    return existing.error();
  }
  if (existing) {
    MOUNTD_ASSIGN(const DirectoryState there, Inspect(*existing));
    MOUNTD_ASSIGN(const DirectoryState source, Inspect(staged));
    if (there.is_mount_root) {
      return CheckPublished(
          *existing, record, publication,
          source.attributes | options.attributes |
              (options.block ? MOUNT_ATTR_NOEXEC : std::uint64_t{0}));
    }
  }
  MOUNTD_TRY(CheckElsewhere(record, publication));
  // Writes the record before it makes the mount, because the volume could be
  // published twice if a mount had no record.
  Publications& publications = store_->data().publications();
  MOUNTD_TRY(publications.Put(volume, publication));
  Result<void> attached = AttachTarget(target, staged, options);
  if (!attached) {
    IgnoreBecauseBestEffort(publications.Remove(volume, target_path));
  }
  return attached;
}

Result<void> NodeVolumes::Unpublish(const std::string& volume,
                                    const std::string& target_path) {
  MOUNTD_ASSIGN(const auto held, store_->locks().Take({volume, target_path}));
  MOUNTD_ASSIGN(const VolumeRecord record, store_->GetVolume(volume));
  const Result<Target> target = OpenTarget(target_path);
  // Without the parent there is no target.
  if (!target && target.error().code != Code::kNotFound) {
    return target.error();
  }
  if (target) {
    MOUNTD_TRY(TakeOff(*target, record));
    MOUNTD_TRY(RemoveTarget(*target));
  }
  return store_->data().publications().Remove(volume, target_path);
}

Result<NodeVolumes::Found> NodeVolumes::FindAt(const std::string& volume,
                                               const std::string& path) {
  MOUNTD_ASSIGN(VolumeRecord record, store_->GetVolume(volume));
  const Result<Target> target = OpenTarget(path);
  Result<UniqueFd> node =
      target ? OpenNode(*target) : Result<UniqueFd>(target.error());
  const Result<bool> ours =
      node ? VolumeMounts(store_->data(), record).IsAt(*node)
           : Result<bool>(node.error());
  if (!ours || !*ours) {
    return MakeError(Code::kNotFound, "volume_path", volume,
                     "the volume is not at this path");
  }
  return Found{std::move(record), std::move(*node)};
}

Result<std::int64_t> NodeVolumes::Expand(const std::string& volume,
                                         const std::string& path,
                                         const CapacityRange& range) {
  MOUNTD_ASSIGN(const auto held, store_->locks().Take({volume}));
  MOUNTD_ASSIGN(const Found found, FindAt(volume, path));
  MOUNTD_ASSIGN(const std::int64_t bytes, store_->ExpandLocked(volume, range));
  MOUNTD_ASSIGN(const VolumeRecord record, store_->GetVolume(volume));
  MOUNTD_TRY(GrowAt(store_, record, found.node));
  return bytes;
}

}  // namespace mountd::csi_local
