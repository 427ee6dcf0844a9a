// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::csi_local {

// Records the facts about a published volume that the kernel does not keep:
// where it is published, and for which access mode. Each publication is one
// small file beneath the data directory, so that a restart loses nothing.
// NodeVolumes always asks the kernel whether the mount is there, because a
// reboot leaves files without mounts.
//
//   publications/<volume>/<hash of the target path>:  "<mode> <0|1> <path>"
struct Publication {
  int access_mode = 0;
  bool read_only = false;
  std::string target_path;

  friend bool operator==(const Publication&, const Publication&) = default;
};

class Publications {
 public:
  // `directory` is an fd of the directory of publications.
  explicit Publications(UniqueFd directory)
      : directory_(std::move(directory)) {}

  // Replaces an earlier record for this target.
  Result<void> Put(const std::string& volume, const Publication& publication);
  Result<void> Remove(const std::string& volume,
                      const std::string& target_path);
  Result<std::vector<Publication>> List(const std::string& volume);
  // Removes all records of a volume that no longer exists.
  Result<void> Forget(const std::string& volume);

 private:
  UniqueFd directory_;
};

}  // namespace mountd::csi_local
