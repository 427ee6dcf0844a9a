// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/source.h"

namespace mountd::propagation {

// Says how the clone of a source is to be mounted.
struct CloneSpec {
  exec::Propagation propagation = exec::Propagation::kPrivate;
  std::uint32_t attributes = 0;  // exec::Attribute
  std::string object;            // for errors
  exec::IdMapPlan ids{};
};

enum class Depth { kWholeTree, kTopOnly };

struct Clone {
  UniqueFd tree;
  exec::FileFacts file;  // of its root
};

// Returns a detached copy of `source`, or the mount that was made for this
// plan. `depth` says whether the copy has the mounts below the source. The copy
// never has them if `spec` shows root's files as the caller's, or if the source
// is a caller's directory (nothing_below.h). The copy is always nosuid and
// nodev, and read-only if `spec` or the source's declaration says so. No part
// of it is ever visible with weaker flags or with unmapped ids.
//
// FailedPrecondition if a file system of the kernel is mounted below the
// source. The caller also calls CheckClone (kernel_filesystems.h), which finds
// mounts that came meanwhile.
Result<Clone> MakeClone(const Context& context, const Source& source,
                        const CloneSpec& spec, Depth depth = Depth::kWholeTree);

// Sets the propagation of an attached clone and reads the mount back. Attaching
// below a shared parent has made the whole tree shared again and changed its
// peer groups, so the propagation must be set once more. Call this when nothing
// covers the clone any more.
Result<exec::MountState> Settle(const Context& context, const Source& source,
                                const UniqueFd& mount, std::uint64_t parent_id,
                                const CloneSpec& spec);

// Returns the state of the mount that `mount` lies in. FailedPrecondition if
// the mount is not what `spec` asks for, or does not lie right on the mount
// `parent_id`; the error says what the mount is instead.
Result<exec::MountState> ReadBack(const Context& context, const Source& source,
                                  const UniqueFd& mount,
                                  std::uint64_t parent_id,
                                  const CloneSpec& spec);

}  // namespace mountd::propagation
