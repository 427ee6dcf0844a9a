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
// written down before it is attached: base/h/<host volume>/anchor is a link
// whose text is "<mount id> <path>" of the anchor, in a directory of root's
// that goes with the boot; the path, as the configuration may name another by
// the time it goes. That directory's lock is held while anchors are made or
// taken away.

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
                               const exec::HostVolumePlan& plan);

}  // namespace mountd::propagation
