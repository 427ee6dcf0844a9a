// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi_local_records.pb.h>

#include <optional>
#include <string>
#include <vector>

#include "csi-node/csi-local/data_directory.h"
#include "csi-node/csi-local/loop_device.h"
#include "csi-node/csi-local/mount_point.h"
#include "csi-node/csi-local/mount_table.h"
#include "mountd/base/result.h"

namespace mountd::csi_local {

// Finds a volume's mounts and devices by what the kernel reports: a directory's
// by device and inode, a tmpfs's by its source, and an image's by two facts,
// the number of its loop device, which no other volume has, and the inode that
// the device is bound to. A view of the current record; the data directory
// outlives the view.
class VolumeMounts {
 public:
  VolumeMounts(const DataDirectory& data, const VolumeRecord& record);

  // True if `fd` is the root of a mount of the volume, or the node of its
  // device.
  Result<bool> IsAt(const UniqueFd& fd) const;

  // Returns the volume's mounts in this process's namespace, without device
  // nodes.
  Result<std::vector<MountEntry>> All() const;

  // Returns the volume's device if the device is bound to its image.
  Result<std::optional<LoopDevice>> Loop() const;

 private:
  bool IsOf(const MountEntry& entry) const;
  Result<bool> IsDirectoryAt(const UniqueFd& fd,
                             const DirectoryState& there) const;
  bool IsLoop(dev_t device) const;

  const DataDirectory& data_;
  const Kind kind_;
  // False for an image that tasks get as a device, because csi-local never
  // mounts such a device.
  const bool mountable_;
  const int number_;
  const std::string id_;
  const std::string label_;
};

// Returns a readable directory of a mounted file system of the volume; nothing
// if none is mounted here.
Result<std::optional<UniqueFd>> OpenMounted(const VolumeMounts& mounts);

}  // namespace mountd::csi_local
