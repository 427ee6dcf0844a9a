// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/source.h"

namespace mountd::propagation {

// An anchor makes a host volume's plain directory a mount of its own: a bind
// mount of the directory onto itself, with the directory's mount flags, in a
// shared peer group of its own. Mounts that are made by path later land in the
// anchor and propagate to its clones. A clone of the anchor costs the same
// however many mounts the host has.
//
// A self-bind that an administrator made looks the same as an anchor. So this
// file writes a marker for each anchor before it attaches the anchor
// (propagation/marker.h, in base/h). The marker holds the path, because the
// configuration may name another path by the time the anchor is removed.

// Anchors `source` if it is a plain directory without mounts below it, or
// adopts the anchor that is already there. Otherwise leaves `source` as it is,
// with anchor_id 0, because somebody else made its mount. FailedPrecondition if
// the volume is still anchored at the path it had before.
Result<void> AnchorHostVolume(const Context& context, const Base& base,
                              const std::string& volume,
                              const std::string& path, const std::string& name,
                              Source* source, exec::Undo* undo);

// Unmounts the anchor if it is still `plan.anchor_id`; with anchor_id 0,
// unmounts the anchor that the marker names. Works for volumes that the
// configuration no longer declares. An anchor that is already gone is success.
// Busy if a process uses the anchor or a mount lies in it, because the unmount
// is never lazy (except in a mount namespace of mountd's own, where all mounts
// in the anchor are copies of the host's). FailedPrecondition if another mount
// lies on top of the anchor.
Result<void> ReleaseHostVolume(const Context& context,
                               const exec::AnchorPlan& plan);

}  // namespace mountd::propagation
