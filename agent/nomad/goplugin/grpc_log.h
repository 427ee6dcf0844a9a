// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "agent/nomad/goplugin/hclog.h"

namespace mountd::goplugin {

// Gives gRPC's own messages to the log, at most as warnings, because gRPC calls
// a client that goes away an error. `log` outlives the process.
void LogGrpcTo(Hclog& log);

}  // namespace mountd::goplugin
