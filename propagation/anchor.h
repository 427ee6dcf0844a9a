// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/source.h"

namespace mountd::propagation {

// An anchor makes a host volume's plain directory a mount of its own: a bind of
// the directory onto itself, with the flags it had, in a shared peer group of
// its own. Later mounts made by path land in it and travel to its clones, and a
// clone of it costs the same however many mounts the host has.
//
// An administrator's own self-bind looks just the same, so what is ours is
// marked before it is attached (propagation/marker.h, in base/h), with the
// path, as the configuration may name another by the time it goes.

// Anchors `source` if it is a plain directory without mounts below, or adopts
// the anchor that is there. Else the source stays as it is, its mount what
// someone else mounted, and its anchor_id 0. FailedPrecondition while the
// volume is still anchored at the path it had before.
Result<void> AnchorHostVolume(const Context& context, const Base& base,
                              const std::string& volume,
                              const std::string& path, const std::string& name,
                              Source* source, exec::Undo* undo);

// Takes the anchor away if it is still `plan.anchor_id`, whatever is marked if
// that is 0, also of a volume that is declared no longer; gone already is
// success. Busy while anything holds it or is mounted in it: never lazily.
// FailedPrecondition if another mount is on top of it.
Result<void> ReleaseHostVolume(const Context& context,
                               const exec::AnchorPlan& plan);

}  // namespace mountd::propagation
