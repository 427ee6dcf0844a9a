// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "csi-node/csi_local/loop_numbers.h"
#include "csi-node/csi_local/publications.h"
#include "csi-node/csi_local/records.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::csi_local {

// Where everything is. Root's alone, 0700.
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

  // Makes what is missing of it; its parent must exist. FailedPrecondition
  // while another process has it.
  static Result<std::unique_ptr<DataDirectory>> Open(const std::string& path);

  const UniqueFd& volumes() const { return volumes_; }
  const UniqueFd& snapshots() const { return snapshots_; }
  Records& volume_records() { return volume_records_; }
  Records& snapshot_records() { return snapshot_records_; }
  Publications& publications() { return publications_; }
  LoopNumbers& loop_numbers() { return loop_numbers_; }

  // By which the volume's tmpfs is known, and its loop device to people; of no
  // other volume, nor of one in another data directory.
  std::string LabelOf(const std::string& volume) const;

  // Of its file system, in bytes.
  Result<Space> SpaceNow() const;

 private:
  DataDirectory(UniqueFd root, UniqueFd volumes, UniqueFd snapshots,
                Records volume_records, Records snapshot_records,
                Publications publications, UniqueFd loop_numbers,
                std::string key);

  UniqueFd root_;
  UniqueFd volumes_;
  UniqueFd snapshots_;
  Records volume_records_;
  Records snapshot_records_;
  Publications publications_;
  LoopNumbers loop_numbers_;
  std::string key_;
};

}  // namespace mountd::csi_local
