// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi_local_records.pb.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "mountd/base/result.h"

namespace mountd::csi_local {

// Bytes; 0: not said.
struct CapacityRange {
  std::int64_t required = 0;
  std::int64_t limit = 0;
};

// What CreateVolume asks for, checked as far as the request alone allows.
struct VolumeSpec {
  std::string name;
  std::map<std::string, std::string> parameters;
  std::optional<Kind> kind;  // by the parameter "kind"
  bool block = false;        // access asked for: one of the two
  bool mount = false;
  std::string fs_type;  // asked for by a capability
  CapacityRange range;
  std::string source_volume_id;
  std::string source_snapshot_id;
};

// The error that becomes OUT_OF_RANGE.
Error OutOfRange(const std::string& object, const std::string& why);

// The size for a range: not less than `least`, `usual` if nothing was said, of
// whole 4 KiB. OutOfRange if there is none; InvalidArgument for no range at
// all.
Result<std::int64_t> ChooseSize(const CapacityRange& range, std::int64_t least,
                                std::int64_t usual);

// What such a volume consists of; `source` is what it is to be a copy of, or
// null. InvalidArgument if these do not go together.
Result<Content> ResolveContent(const VolumeSpec& spec, const Content* source);

// The least size that such a volume has.
std::int64_t LeastSize(const Content& content);

// Whether an existing volume is what the same request would have made.
bool IsCompatible(const VolumeRecord& record, const VolumeSpec& spec);

// Whether it can be used so; a non-empty `fs_type` has to be its own.
bool FitsAccess(const Content& content, bool block, const std::string& fs_type);

}  // namespace mountd::csi_local
