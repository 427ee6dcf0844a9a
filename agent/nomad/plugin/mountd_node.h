// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "agent/nomad/plugin/driver_source.h"
#include "mountd/base/result.h"

namespace mountd::nomad {

// Connects to mountd and makes the driver of OCI containers. Unavailable while
// mountd is away; otherwise errors as of MakeOciDriver.
Result<Node> MakeMountdNode(const Settings& settings);

}  // namespace mountd::nomad
