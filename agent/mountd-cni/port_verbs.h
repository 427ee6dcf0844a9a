// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "agent/mountd-cni/config.h"
#include "agent/mountd-cni/environment.h"
#include "agent/mountd-cni/failure.h"
#include "agent/mountd-cni/verbs.h"
#include "agent/types.h"

// The verbs of the personality portmap, which gives host ports to an interface
// that the personality bridge (or mountd) has made before in the same list. The
// ports end with the interface, so a DEL of the interface alone removes them.
namespace mountd::cni_plugin {

// Maps runtimeConfig.portMappings in place of the interface's ports, all or
// none, and returns prevResult. Does nothing if there are no mappings. If
// mountd refuses a port that an attachment whose DEL never came still has,
// removes that attachment first (MakeRoom). kInvalidConfig without a
// prevResult, or if mountd has no such interface.
Outcome<Added> AddPorts(const Environment& environment, const Config& config);

// Removes the interface's ports. Ok if there is no such interface, or if mountd
// refuses to change it, because the DEL of the interface comes next.
Outcome<void> DelPorts(const Environment& environment, const Config& config);

// 109 (FailedPrecondition) if mountd does not map one of the ports. A UDP port
// that AddPorts may leave out is not checked.
Outcome<void> CheckPorts(const Environment& environment, const Config& config);

// Returns a line for each asked UDP port that mountd has left out because it is
// not free; "" for none.
std::string UnmappedPorts(const std::vector<agent::Port>& asked,
                          const agent::NetworkStatus& status);

}  // namespace mountd::cni_plugin
