// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>

#include "agent/mountd-cni/config.h"
#include "agent/mountd-cni/environment.h"
#include "agent/mountd-cni/failure.h"
#include "agent/types.h"
#include "netns/cni/documents/json.h"

namespace mountd::cni_plugin {

// The MAC addresses of both ends; "" if unknown.
struct Macs {
  std::string host;
  std::string container;
};

// Returns the result of ADD: prevResult, then the host's end, the container's
// end with its sandbox, the end's addresses, the default routes if they lead
// through this end, and dns.
cni::Json ResultOf(const agent::NetworkStatus& status,
                   const Environment& environment, const Config& config,
                   const Macs& macs);

// Returns prevResult, or an empty result if there is none, with the version
// that was asked for.
cni::Json PassedOn(const Config& config);

// Carries out CHECK: Ok if mountd still has what prevResult says, in the
// namespace with that inode. Otherwise 109 (FailedPrecondition) with the
// difference.
Outcome<void> CheckResult(const agent::NetworkStatus& status,
                          const Environment& environment, const Config& config,
                          std::uint64_t netns_inode);

}  // namespace mountd::cni_plugin
