// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <utility>

#include "mountd/config/config.h"
#include "mountd/plan/plan.h"

// The part of CheckRequest (invariants.h) on networks, and the parts that both
// share. All checks fail with InvalidArgument.
namespace mountd::exec {

inline Error Invalid(const char* field, std::string why = "is not valid") {
  return MakeError(Code::kInvalidArgument, "check plan", field, std::move(why));
}

Result<void> CheckName(const WireName& name, const char* field);

// Checks a network to inspect or delete, which an earlier config may have
// declared.
Result<void> CheckNetwork(const NetworkPlan& plan);
// Checks a network to make or repair. The current config must declare its
// addresses and grant its ports.
Result<void> CheckNetworkToMake(const NetworkPlan& plan, const Config& config);
// Checks ports of a request that maps none here. The current config must grant
// them.
Result<void> CheckPortsToAskFor(const NetworkPlan& plan, const Config& config);
Result<void> CheckNetworkFile(const NetworkFilePlan& plan);
// Some rule of the current config must grant an ADD's network.
Result<void> CheckCni(const CniPlan& plan, const Config& config);
Result<void> CheckNetworkWatch(const NetworkWatchPlan& plan);

}  // namespace mountd::exec
