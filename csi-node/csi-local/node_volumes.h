// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "csi-node/csi-local/mount_point.h"
#include "csi-node/csi-local/publications.h"
#include "csi-node/csi-local/store.h"
#include "csi-node/csi-local/volume_mounts.h"
#include "mountd/base/result.h"

namespace mountd::csi_local {

// Describes how a volume is to be used, from a checked volume capability.
struct MountOptions {
  int access_mode = 0;           // VolumeCapability.AccessMode.Mode
  std::uint64_t attributes = 0;  // MOUNT_ATTR_{RDONLY,NOEXEC,NOATIME}
  bool block = false;
  std::string fs_type;         // empty: any
  std::optional<gid_t> group;  // volume_mount_group
};

// Owns how this node uses the volumes.
//
//            Stage              Publish (target)
//   (none) ────────► staged ───────────────────► published
//          ◄────────        ◄───────────────────
//           Unstage            Unpublish (target)
//
// A staged volume is a private mount at the staging path; a published one is
// another mount at the target path. For block access, a staged volume is a loop
// device, and a published one is the mount of the device's node. An image is
// unstaged when the kernel has no device of it any more (device_release.h).
// Reads the state from the kernel each time, so a killed process loses none.
// Idempotent as the CSI specification says; errors have the meaning of its
// codes (AlreadyExists, FailedPrecondition, NotFound, InvalidArgument; Aborted
// while another call works on the volume or the path). Thread-safe.
class NodeVolumes {
 public:
  struct Options {
    // If true, staging a volume that nobody has made makes it as a directory.
    bool create_on_stage = false;
  };
  // A volume at a path where it is staged or published.
  struct Found {
    VolumeRecord record;
    UniqueFd node;  // O_PATH: a directory, or a device's node
  };

  // `store` outlives this object.
  NodeVolumes(Store* store, const Options& options)
      : store_(store), options_(options) {}

  Result<void> Stage(const std::string& volume, const std::string& staging_path,
                     const MountOptions& options);
  Result<void> Unstage(const std::string& volume,
                       const std::string& staging_path);
  // Makes the target, a directory or a file; its parent must exist.
  Result<void> Publish(const std::string& volume,
                       const std::string& staging_path,
                       const std::string& target_path,
                       const MountOptions& options);
  Result<void> Unpublish(const std::string& volume,
                         const std::string& target_path);

  // NotFound if there is no such volume, or if it is not at that path.
  Result<Found> FindAt(const std::string& volume, const std::string& path);
  // Grows the volume if `range` asks for that, and the mount or device at the
  // path with it.
  Result<std::int64_t> Expand(const std::string& volume,
                              const std::string& path,
                              const CapacityRange& range);

 private:
  Result<VolumeRecord> RecordForStage(const std::string& volume,
                                      const MountOptions& options);
  Result<void> StageMount(VolumeRecord record, const UniqueFd& staging,
                          const MountOptions& options);
  // Returns the tree that Publish copies: the mount at the staging path, or the
  // device's node. FailedPrecondition if the volume is not staged.
  Result<UniqueFd> StagedAt(const VolumeRecord& record,
                            const std::string& staging_path,
                            const MountOptions& options);
  Result<void> CheckPublished(const UniqueFd& there, const VolumeRecord& record,
                              const Publication& wanted,
                              std::uint64_t attributes);
  // FailedPrecondition if the volume is published at another target and its
  // access mode allows only one.
  Result<void> CheckElsewhere(const VolumeRecord& record,
                              const Publication& wanted);
  Result<bool> IsPublishedAt(const VolumeRecord& record,
                             const std::string& path);
  // Removes the volume's mounts at the target, if there are any.
  // FailedPrecondition if another mount is there.
  Result<void> TakeOff(const Target& target, const VolumeRecord& record);
  Result<bool> IsDeviceNeeded(const VolumeRecord& record);
  // FailedPrecondition while the volume is published at a target.
  Result<void> CheckUnpublished(const VolumeRecord& record);

  Store* store_;
  const Options options_;
};

}  // namespace mountd::csi_local
