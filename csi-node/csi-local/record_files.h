// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::csi_local {

// Owns records in one directory. Each is a file named by its id (a valid name,
// IsValidName), in protobuf's text format, so that people can read it. Put
// replaces a record as a whole, and the record is on the disk when Put returns.
// Thread-safe for different ids.
class RecordFiles {
 public:
  explicit RecordFiles(UniqueFd directory) : directory_(std::move(directory)) {}

  Result<void> Put(const std::string& id,
                   const google::protobuf::Message& record);
  // NotFound if there is no record. Clears `record` first.
  Result<void> Get(const std::string& id,
                   google::protobuf::Message* record) const;
  // Ok if there is no record.
  Result<void> Remove(const std::string& id);
  // Removes the files of a Put that was cut off.
  Result<void> RemoveUnfinished();
  // Returns the ids in order.
  Result<std::vector<std::string>> List() const;

 private:
  Result<void> Sync();

  UniqueFd directory_;
};

}  // namespace mountd::csi_local
