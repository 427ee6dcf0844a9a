// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "csi-node/csi_local/mount_point.h"
#include "csi-node/csi_local/publications.h"
#include "mountd/base/result.h"

namespace mountd::csi_local {

// How a volume is to be mounted, from a checked volume capability.
struct MountOptions {
  int access_mode = 0;           // VolumeCapability.AccessMode.Mode
  std::uint64_t attributes = 0;  // MOUNT_ATTR_{RDONLY,NOEXEC,NOATIME}
};

// The volumes: directories by name beneath the data directory.
//
//            Stage              Publish (target)
//   (none) ────────► staged ───────────────────► published
//          ◄────────        ◄───────────────────
//           Unstage            Unpublish (target)
//
// Staged is a private mount of the volume's directory at the staging path,
// published another at the target path. Which of these holds is read from the
// kernel each time, so a killed process forgets nothing. Idempotent as the CSI
// specification has it; errors carry its codes' meaning (AlreadyExists,
// FailedPrecondition, NotFound, InvalidArgument; Aborted while another call is
// at work on the volume or the path). Thread-safe.
class Volumes {
 public:
  // Makes what is missing of `data_dir` (its parent must exist), 0700.
  static Result<std::unique_ptr<Volumes>> Open(const std::string& data_dir);

  // Makes the volume if it is not there.
  Result<void> Stage(const std::string& volume, const std::string& staging_path,
                     const MountOptions& options);
  Result<void> Unstage(const std::string& volume,
                       const std::string& staging_path);
  // Makes the target's directory; its parent must exist.
  Result<void> Publish(const std::string& volume,
                       const std::string& staging_path,
                       const std::string& target_path,
                       const MountOptions& options);
  Result<void> Unpublish(const std::string& volume,
                         const std::string& target_path);

 private:
  class Lock;

  Volumes(UniqueFd volumes, UniqueFd publications)
      : volumes_(std::move(volumes)), publications_(std::move(publications)) {}

  Result<UniqueFd> OpenVolume(const std::string& volume) const;
  Result<void> CheckPublished(const DirectoryState& there,
                              const DirectoryState& volume,
                              const Publication& wanted,
                              const std::string& name,
                              std::uint64_t attributes);
  // FailedPrecondition if another target has it and the mode forbids two.
  Result<void> CheckElsewhere(const DirectoryState& volume,
                              const Publication& wanted,
                              const std::string& name);
  Result<void> AttachTarget(const Target& target, const UniqueFd& source,
                            std::uint64_t attributes);

  UniqueFd volumes_;
  Publications publications_;
  std::mutex mutex_;
  std::set<std::string> busy_;  // mutex_; volumes and paths at work
};

}  // namespace mountd::csi_local
