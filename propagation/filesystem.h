// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/source.h"

namespace mountd::propagation {

// The executor mounts each file system that root declared a single time, when a
// plan first uses it, at base/f/<name>/fs, in a shared peer group of its own.
// Only root reaches that path; users get clones. The mount goes with its last
// user, as an anchor does.
//
// A child does the mounting, and the executor kills it at a deadline
// (mount_helper.h). A killed child may have mounted the file system all the
// same, or may still do so. Nothing else mounts in that directory. So a mount
// there that the marker (propagation/marker.h) does not name was left by an
// interrupted plan, and the next plan unmounts it and mounts again.
//
// If the file system's server has died (ENOTCONN, ESTALE), the next plan mounts
// the file system again. Users keep clones of the dead mount until each clone
// is replaced. A file system that only does not answer stays; finding that out
// takes timeouts.probe_answer.

// Opens the file system as a source; mounts it first if it is not mounted.
// Checks the new mount; `undo` unmounts it. NotFound if the file system is not
// declared. PermissionDenied if its declaration lacks this propagation.
// FailedPrecondition while it is mounted as an older declaration said.
// DeadlineExceeded if the executor killed the child.
Result<void> OpenFilesystem(const Context& context, const Base& base,
                            const exec::AttachPlan& plan, Source* source,
                            exec::Undo* undo);

// Unmounts the file system if its mount is still `plan.anchor_id`, or whatever
// mount is there if anchor_id is 0. Works for file systems that are no longer
// declared. A mount that is gone already is success. Busy while anything holds
// the mount, because this unmount is never lazy.
Result<void> ReleaseFilesystem(const Context& context,
                               const exec::AnchorPlan& plan);

}  // namespace mountd::propagation
