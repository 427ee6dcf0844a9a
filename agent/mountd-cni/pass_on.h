// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "agent/mountd-cni/config.h"
#include "agent/mountd-cni/environment.h"
#include "agent/mountd-cni/failure.h"
#include "agent/mountd-cni/verbs.h"

// The verbs of the personalities that have nothing to do with mountd: loopback,
// firewall and host-local. They call nobody.
namespace mountd::cni_plugin {

// loopback: returns prevResult, or an empty result if loopback is the first of
// its list. mountd brings "lo" up with the first interface.
Outcome<Added> PassOn(const Environment& environment, const Config& config);

// firewall: as PassOn, but kInvalidConfig without a prevResult.
Outcome<Added> PassOnPrevious(const Environment& environment,
                              const Config& config);

// host-local: 111 (NotSupported), because mountd chooses all addresses itself.
Outcome<Added> RefuseAddress(const Environment& environment,
                             const Config& config);
Outcome<void> RefuseCheck(const Environment& environment, const Config& config);
// kPluginNotAvailable.
Outcome<void> RefuseStatus(const Config& config);

// Ok, for verbs that have nothing to do.
Outcome<void> Nothing(const Environment& environment, const Config& config);
Outcome<void> NothingForAll(const Config& config);

}  // namespace mountd::cni_plugin
