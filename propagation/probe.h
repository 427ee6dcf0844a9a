// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/plan/health_plans.h"
#include "propagation/ground/context.h"

namespace mountd::propagation {

// Returns a clone, attached nowhere, of the mount whose root is `mount`. A
// process that asks the file system through the clone does not keep the mount
// itself in use, however long the answer takes. NotFound if the mount was
// unmounted.
Result<UniqueFd> CloneToAsk(const Context& context, const UniqueFd& mount,
                            const std::string& object);

// Asks the file system of the mount at the plan's target whether it still
// answers. A child asks and is killed at the deadline (timeouts.probe_answer),
// because the server of a FUSE or network file system may hang, and the asking
// process with it. NotFound if the mount is not there.
Result<exec::ProbeReply> ProbeMount(const Context& context,
                                    const exec::ProbePlan& plan);

// Asks, in the same way, the file system of a volume that a plugin published. A
// volume without a mount lies in the plugin's directory and is healthy while it
// exists.
Result<exec::ProbeReply> ProbeVolume(const Context& context,
                                     const exec::VolumeProbePlan& plan);

}  // namespace mountd::propagation
