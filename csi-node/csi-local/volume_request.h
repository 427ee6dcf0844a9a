// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi_local_records.pb.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "mountd/base/result.h"

namespace mountd::csi_local {

// In bytes; 0: not specified.
struct CapacityRange {
  std::int64_t required = 0;
  std::int64_t limit = 0;
};

// The request of a CreateVolume, checked as far as the request alone allows.
struct VolumeRequest {
  std::string name;
  std::map<std::string, std::string> parameters;
  std::optional<Kind> kind;  // from the parameter "kind"
  bool block = false;        // the access asked for: `block` or `mount`
  bool mount = false;
  std::string fs_type;  // from a capability
  CapacityRange range;
  std::string source_volume_id;
  std::string source_snapshot_id;
};

// Returns the error that becomes OUT_OF_RANGE.
Error OutOfRange(const std::string& object, const std::string& why);

// Returns the size for a range, in whole 4 KiB: at least `least`, and `usual`
// if the range says nothing. OutOfRange if no size fits. InvalidArgument if the
// range contradicts itself.
Result<std::int64_t> ChooseSize(const CapacityRange& range, std::int64_t least,
                                std::int64_t usual);

// Returns the content of such a volume. `source` is the content to copy, or
// null. InvalidArgument if these do not fit together.
Result<Content> ResolveContent(const VolumeRequest& spec,
                               const Content* source);

// Returns the least size of such a volume.
std::int64_t LeastSize(const Content& content);

// True if the same request could have made the existing volume.
bool IsCompatible(const VolumeRecord& record, const VolumeRequest& spec);

// True if the content allows this access. A non-empty `fs_type` has to be the
// content's own.
bool FitsAccess(const Content& content, bool block, const std::string& fs_type);

}  // namespace mountd::csi_local
