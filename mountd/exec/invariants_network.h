// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <utility>

#include "mountd/config.h"
#include "mountd/exec/plan.h"

// Of CheckRequest (invariants.h) what is on networks, and what all of it is
// made of. All fail with InvalidArgument.
namespace mountd::exec {

inline Error Invalid(const char* field, std::string why = {}) {
  return MakeError(Code::kInvalidArgument, "check plan", field, std::move(why));
}

Result<void> CheckName(const WireName& name, const char* field);

// One that is to be inspected or deleted: also under an earlier config.
Result<void> CheckNetwork(const NetworkPlan& plan);
// One that is to be made or repaired: its addresses must be declared, and its
// ports granted, now.
Result<void> CheckNetworkToMake(const NetworkPlan& plan, const Config& config);
// Ports that are asked for, and map to nothing here: granted ones, now.
Result<void> CheckPortsToAskFor(const NetworkPlan& plan, const Config& config);
Result<void> CheckNetworkFile(const NetworkFilePlan& plan);
// An ADD's network must be granted by some rule, now.
Result<void> CheckCni(const CniPlan& plan, const Config& config);
Result<void> CheckNetworkWatch(const NetworkWatchPlan& plan);

}  // namespace mountd::exec
