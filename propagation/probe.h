// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/context.h"

namespace mountd::propagation {

// A clone of the mount whose root `mount` is, attached nowhere: who asks by it
// whether the file system answers does not keep the mount itself in use,
// however long that takes. NotFound if it was unmounted.
Result<UniqueFd> CloneToAsk(const Context& context, const UniqueFd& mount,
                            const std::string& object);

// Asks the file system of the mount at the plan's target whether it still
// answers, in a child that is killed at the deadline (timeouts.probe_answer):
// the server of a FUSE or network file system may hang, and the asker with it.
// NotFound if the mount is not there.
Result<exec::ProbeReply> ProbeMount(const Context& context,
                                    const exec::ProbePlan& plan);

// The same of what a plugin published. What is no mount lies in the plugin's
// directory, and is healthy while it is there.
Result<exec::ProbeReply> ProbeVolume(const Context& context,
                                     const exec::VolumeProbePlan& plan);

}  // namespace mountd::propagation
