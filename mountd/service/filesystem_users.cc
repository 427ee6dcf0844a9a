// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/filesystem_users.h"

#include <map>
#include <set>
#include <vector>

#include "csi-node/node/volume_paths.h"
#include "mountd/mounts/mount_request.h"

namespace mountd {
namespace {

// Returns the device of the mount's file system; 0: there is no mount.
Result<std::uint64_t> DeviceOf(const Result<exec::MountState>& state) {
  if (!state && state.error().code == Code::kNotFound) {
    return std::uint64_t{0};
  }
  if (!state) {
    return state.error();
  }
  return state->mount_id == 0 ? std::uint64_t{0} : state->device;
}

class Search {
 public:
  Search(const ServiceParts& parts, const MountRecord& mount,
         std::uint64_t device)
      : parts_(parts), mount_(mount), device_(device) {}

  Result<std::optional<FilesystemUser>> AmongMounts() {
    MOUNTD_ASSIGN(const std::vector<MountRecord> all,
                  parts_.boot.mounts.ListMounts());
    for (const MountRecord& other : all) {
      // A tmpfs is a file system of its own, so nobody else uses it.
      if (other.allocation == mount_.allocation ||
          other.wish.source_kind == exec::SourceKind::kTmpfs) {
        continue;
      }
      MOUNTD_ASSIGN(const std::uint64_t device,
                    DeviceOf(parts_.executor.InspectTarget(TargetOf(other))));
      if (device == device_) {
        return User(other.uid, "allocation " + other.allocation);
      }
    }
    return Nobody();
  }

  Result<std::optional<FilesystemUser>> AmongVolumes() {
    MOUNTD_ASSIGN(const std::vector<PublicationRecord> publications,
                  parts_.state.volumes.ListPublications());
    MOUNTD_ASSIGN(const std::vector<VolumeRecord> list,
                  parts_.state.volumes.ListVolumes());
    std::map<VolumeKey, VolumeRecord> volumes;
    for (const VolumeRecord& volume : list) {
      volumes.emplace(volume.key, volume);
    }
    std::set<VolumeKey> own;
    for (const PublicationRecord& publication : publications) {
      const auto volume = volumes.find(publication.key);
      if (publication.allocation == mount_.allocation) {
        own.insert(publication.key);
        continue;
      }
      if (volume == volumes.end()) {
        continue;
      }
      MOUNTD_ASSIGN(const std::uint64_t device,
                    DeviceOf(parts_.executor.InspectVolumeDir(csi::PublishDir(
                        volume->second, publication.allocation))));
      if (device == device_) {
        return User(volume->second.uid, "allocation " + publication.allocation);
      }
    }
    return AmongStaged(volumes, own);
  }

 private:
  Result<std::optional<FilesystemUser>> AmongStaged(
      const std::map<VolumeKey, VolumeRecord>& volumes,
      const std::set<VolumeKey>& own) {
    for (const auto& [key, volume] : volumes) {
      if (own.contains(key)) {
        continue;
      }
      MOUNTD_ASSIGN(
          const std::uint64_t device,
          DeviceOf(parts_.executor.InspectVolumeDir(csi::StagingDir(volume))));
      if (device == device_) {
        return User(volume.uid,
                    "volume " + volume.plugin + "/" + volume.volume_id);
      }
    }
    return Nobody();
  }
  static Result<std::optional<FilesystemUser>> User(std::uint32_t uid,
                                                    std::string what) {
    return std::optional(FilesystemUser{uid, std::move(what)});
  }
  static Result<std::optional<FilesystemUser>> Nobody() {
    return std::optional<FilesystemUser>();
  }

  const ServiceParts& parts_;
  const MountRecord& mount_;
  const std::uint64_t device_;
};

}  // namespace

Result<std::optional<FilesystemUser>> FindOtherUser(const ServiceParts& parts,
                                                    const MountRecord& mount) {
  MOUNTD_ASSIGN(const std::uint64_t device,
                DeviceOf(parts.executor.InspectTarget(TargetOf(mount))));
  if (device == 0) {
    return std::optional<FilesystemUser>();
  }
  Search search(parts, mount, device);
  MOUNTD_ASSIGN(std::optional<FilesystemUser> user, search.AmongMounts());
  if (!user) {
    MOUNTD_ASSIGN(user, search.AmongVolumes());
  }
  return user;
}

}  // namespace mountd
