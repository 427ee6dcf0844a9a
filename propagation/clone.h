// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/source.h"

namespace mountd::propagation {

// What the clone of a source is to be.
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

// A detached copy of `source`, with all mounts below it or without, or what was
// made for this plan itself: nosuid and nodev always, read-only if `spec` or
// the source's declaration says so. Never is anything of it visible with weaker
// flags, nor with ids that are not mapped. FailedPrecondition if a file system
// of the kernel is mounted below it: CheckClone (kernel_filesystems.h) says so
// of what came meanwhile.
Result<Clone> MakeClone(const Context& context, const Source& source,
                        const CloneSpec& spec, Depth depth = Depth::kWholeTree);

// Sets the propagation of a clone once it is attached, and reads it back:
// attaching below a shared parent has made the whole tree shared again, and its
// place in peer groups is another. To be called when nothing covers it any
// more.
Result<exec::MountState> Settle(const Context& context, const Source& source,
                                const UniqueFd& mount, std::uint64_t parent_id,
                                const CloneSpec& spec);

// What the kernel now says of the mount that `mount` lies in, if it is just
// what was asked for, attached right on the mount `parent_id`;
// FailedPrecondition says what it is instead.
Result<exec::MountState> ReadBack(const Context& context, const Source& source,
                                  const UniqueFd& mount,
                                  std::uint64_t parent_id,
                                  const CloneSpec& spec);

}  // namespace mountd::propagation
