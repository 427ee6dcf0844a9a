// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "agent/nomad/volume_request.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// The directories of one volume in DHV_VOLUMES_DIR, with the rights of the
// client's user:
//
//   <id>/                 mode 0700: the root of a volume may be open to all
//   <id>/volume/          the mount point
//   <id>/volume/making/   the tree below until it is whole
//   <id>/volume/nomad/    mode 0700
//   <id>/volume/nomad/data/   what tasks get, with its owner and its mode
namespace mountd::nomad {

class VolumePlace {
 public:
  VolumePlace(const std::string& volumes_dir, const std::string& id)
      : volumes_dir_(volumes_dir), id_(id) {}

  std::string mount_path() const {
    return volumes_dir_ + "/" + id_ + "/volume";
  }
  std::string data_path() const { return mount_path() + "/nomad/data"; }

  // Makes the directories down to the mount point, and returns an fd of it.
  // FailedPrecondition if something else has one of the names, or a directory
  // is another user's.
  Result<UniqueFd> MakeMountPoint() const;

  // Makes "nomad/data" in the volume that is mounted, unless it is there.
  // FailedPrecondition if nothing is mounted. Other errors as MakeDataIn.
  Result<void> MakeData(const HostVolumeRequest& request) const;

  // The same in the directory `root`, whose path is for messages only.
  // FailedPrecondition if a link or another mount has one of the names, or
  // "nomad" is another user's. PermissionDenied for a group that this user is
  // not in. A hostile file server can put a link there after the check.
  static Result<void> MakeDataIn(int root, const HostVolumeRequest& request,
                                 const std::string& path);

  // Removes the directories after the unmount. Ok if they are gone.
  Result<void> Remove() const;

 private:
  Result<UniqueFd> OpenOwn() const;

  const std::string volumes_dir_;
  const std::string id_;
};

}  // namespace mountd::nomad
