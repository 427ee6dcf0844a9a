// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "csi-node/csi_local/mount_point.h"
#include "csi-node/csi_local/publications.h"
#include "csi-node/csi_local/store.h"
#include "csi-node/csi_local/volume_mounts.h"
#include "mountd/base/result.h"

namespace mountd::csi_local {

// How a volume is to be used, from a checked volume capability.
struct MountOptions {
  int access_mode = 0;           // VolumeCapability.AccessMode.Mode
  std::uint64_t attributes = 0;  // MOUNT_ATTR_{RDONLY,NOEXEC,NOATIME}
  bool block = false;
  std::string fs_type;         // empty: whichever it has
  std::optional<gid_t> group;  // volume_mount_group
};

// The volumes as this node uses them.
//
//            Stage              Publish (target)
//   (none) ────────► staged ───────────────────► published
//          ◄────────        ◄───────────────────
//           Unstage            Unpublish (target)
//
// Staged is a private mount of the volume at the staging path, published
// another at the target path. For block access, staged is a loop device,
// published the mount of its node. An image is unstaged when the kernel has no
// device of it any more (device_release.h). Which of these holds is read from
// the kernel each time, so a killed process forgets nothing. Idempotent as the
// CSI specification has it; errors carry its codes' meaning (AlreadyExists,
// FailedPrecondition, NotFound, InvalidArgument; Aborted while another call is
// at work on the volume or the path). Thread-safe.
class Volumes {
 public:
  struct Options {
    // A volume that nobody has made is made, as a directory, when it is staged.
    bool create_on_stage = false;
  };
  // A volume where it is staged or published.
  struct Found {
    VolumeRecord record;
    UniqueFd node;  // O_PATH: a directory, or a device's node
  };

  // `store` outlives it.
  Volumes(Store* store, const Options& options)
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

  // NotFound, too, if the volume is not at that path.
  Result<Found> FindAt(const std::string& volume, const std::string& path);
  // Grows the volume if `range` says so, and what is at the path with it.
  Result<std::int64_t> Expand(const std::string& volume,
                              const std::string& path,
                              const CapacityRange& range);

 private:
  Result<VolumeRecord> RecordForStage(const std::string& volume,
                                      const MountOptions& options);
  Result<void> StageMount(VolumeRecord record, const UniqueFd& staging,
                          const MountOptions& options);
  // What Publish copies: the mount at the staging path, or the device's node.
  // FailedPrecondition if the volume is not staged.
  Result<UniqueFd> StagedAt(const VolumeRecord& record,
                            const std::string& staging_path,
                            const MountOptions& options);
  Result<void> CheckPublished(const UniqueFd& there, const VolumeRecord& record,
                              const Publication& wanted,
                              std::uint64_t attributes);
  // FailedPrecondition if another target has it and the mode forbids two.
  Result<void> CheckElsewhere(const VolumeRecord& record,
                              const Publication& wanted);
  Result<bool> IsPublishedAt(const VolumeRecord& record,
                             const std::string& path);
  // Takes the volume's mounts there off, if there are any. FailedPrecondition
  // if another's is there.
  Result<void> TakeOff(const Target& target, const VolumeRecord& record);
  Result<bool> IsDeviceNeeded(const VolumeRecord& record);
  // FailedPrecondition while the volume is at a target.
  Result<void> CheckUnpublished(const VolumeRecord& record);

  Store* store_;
  const Options options_;
};

}  // namespace mountd::csi_local
