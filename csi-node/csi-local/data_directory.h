// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "csi-node/csi-local/loop_numbers.h"
#include "csi-node/csi-local/publications.h"
#include "csi-node/csi-local/record_files.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::csi_local {

// Owns csi-local's data on the disk. Only root may enter the directory (0700).
//
//   volumes/<id>            a directory, or an image
//   snapshots/<id>          the same
//   records/<id>            a volume's (csi_local_records.proto)
//   snapshot-records/<id>   a snapshot's
//   publications/<id>/      where a volume is published (publications.h)
//   loop-numbers            which loop devices come next (loop_numbers.h)
class DataDirectory {
 public:
  struct Space {
    std::int64_t total = 0;
    std::int64_t available = 0;
  };

  // Opens the directory and makes its missing parts; its parent must exist.
  // FailedPrecondition while another process has the directory.
  static Result<std::unique_ptr<DataDirectory>> Open(const std::string& path);

  const UniqueFd& volumes() const { return volumes_; }
  const UniqueFd& snapshots() const { return snapshots_; }
  RecordFiles& volume_records() { return volume_records_; }
  RecordFiles& snapshot_records() { return snapshot_records_; }
  Publications& publications() { return publications_; }
  LoopNumbers& loop_numbers() { return loop_numbers_; }

  // Returns the label of the volume's tmpfs, and of its loop device, where
  // people read it. No other volume has that label, and no volume in another
  // data directory.
  std::string LabelOf(const std::string& volume) const;

  // Returns the space of the directory's file system, in bytes.
  Result<Space> SpaceNow() const;

 private:
  DataDirectory(UniqueFd root, UniqueFd volumes, UniqueFd snapshots,
                RecordFiles volume_records, RecordFiles snapshot_records,
                Publications publications, UniqueFd loop_numbers,
                std::string key);

  UniqueFd root_;
  UniqueFd volumes_;
  UniqueFd snapshots_;
  RecordFiles volume_records_;
  RecordFiles snapshot_records_;
  Publications publications_;
  LoopNumbers loop_numbers_;
  std::string key_;
};

}  // namespace mountd::csi_local
