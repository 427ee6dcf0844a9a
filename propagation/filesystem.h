// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/source.h"

namespace mountd::propagation {

// A file system that root declared is mounted once, when it is first used, at
// base/f/<name>/fs, where nobody but root comes by path, in a shared peer group
// of its own; its users get clones. It goes with its last user, as an anchor
// does.
//
// It is mounted by a child that is killed in time (mount_helper.h), and that
// may have mounted it all the same, then or later. Nothing else mounts in that
// directory. So one that is there is ours, and one that its marker
// (propagation/marker.h) does not name was left by a plan that was cut off: it
// is unmounted and mounted anew.
//
// One whose server has died (ENOTCONN, ESTALE) is mounted anew for whoever asks
// next. Its users keep their clones of the dead one, until each is replaced.
// One that only does not answer stays: it costs timeouts.probe_answer to tell.

// Opens it as a source; mounts it if it is not. NotFound if it is not declared,
// PermissionDenied if not with this propagation, FailedPrecondition while it is
// mounted as it was declared before, DeadlineExceeded if the child was killed.
// What was mounted is checked, and undone by `undo`.
Result<void> OpenFilesystem(const Context& context, const Base& base,
                            const exec::AttachPlan& plan, Source* source,
                            exec::Undo* undo);

// Unmounts it, if it is still `plan.anchor_id` (whatever is there if that is
// 0), also one that is declared no longer; gone already is success. Busy while
// anything holds it: never lazily.
Result<void> ReleaseFilesystem(const Context& context,
                               const exec::AnchorPlan& plan);

}  // namespace mountd::propagation
