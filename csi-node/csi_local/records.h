// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::csi_local {

// Records in one directory, one file each, named by its id (a valid name,
// IsValidName): protobuf's text format, for whoever has to look at it. A record
// is replaced as a whole, and is on the disk when Put returns. Thread-safe for
// different ids.
class Records {
 public:
  explicit Records(UniqueFd directory) : directory_(std::move(directory)) {}

  Result<void> Put(const std::string& id,
                   const google::protobuf::Message& record);
  // NotFound; `record` is cleared first.
  Result<void> Get(const std::string& id,
                   google::protobuf::Message* record) const;
  // Gone already is success.
  Result<void> Remove(const std::string& id);
  // What a Put that was cut off has left.
  Result<void> RemoveUnfinished();
  // In order.
  Result<std::vector<std::string>> List() const;

 private:
  Result<void> Sync();

  UniqueFd directory_;
};

}  // namespace mountd::csi_local
