// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi_local_records.pb.h>

#include <optional>
#include <string>
#include <vector>

#include "csi-node/csi_local/data_directory.h"
#include "csi-node/csi_local/loop_device.h"
#include "csi-node/csi_local/mount_point.h"
#include "csi-node/csi_local/mount_table.h"
#include "mountd/base/result.h"

namespace mountd::csi_local {

// Knows a volume's mounts and devices where it sees them, by what the kernel
// says of them: a directory's by device and inode, a tmpfs's by its source, an
// image's by the number of its loop device, which no other volume has, and the
// inode that the device is bound to. A view of the record as it is now: the
// data directory outlives the view.
class VolumeMounts {
 public:
  VolumeMounts(const DataDirectory& data, const VolumeRecord& record);

  // Whether `fd` is the root of a mount of the volume, or its device's node.
  Result<bool> IsAt(const UniqueFd& fd) const;

  // Its mounts in this process's namespace; no device nodes.
  Result<std::vector<MountEntry>> All() const;

  // Its device, if its image is bound to that.
  Result<std::optional<LoopDevice>> Loop() const;

 private:
  bool IsOf(const MountEntry& entry) const;
  Result<bool> IsDirectoryAt(const UniqueFd& fd,
                             const DirectoryState& there) const;
  bool IsLoop(dev_t device) const;

  const DataDirectory& data_;
  const Kind kind_;
  // Of an image. Nothing that is mounted of a device was mounted by csi-local.
  const bool mountable_;
  const int number_;
  const std::string id_;
  const std::string label_;
};

// A readable directory of a mounted file system of the volume; nothing if none
// is mounted here.
Result<std::optional<UniqueFd>> OpenMounted(const VolumeMounts& mounts);

}  // namespace mountd::csi_local
