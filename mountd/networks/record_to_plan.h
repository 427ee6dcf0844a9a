// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/plan/network_plans.h"
#include "mountd/store/network_records.h"

// Turns the record of a network into the executor's plan for it.
namespace mountd {

// Returns the plan of the network, or of its namespace alone if the network is
// no bridge.
exec::NetworkPlan PlanOf(const NetworkRecord& record,
                         exec::NamespaceOrigin origin);

// Removes from the record's ports the protocols that were not mapped, because
// they were taken. `state` is the plan's answer. Returns whether there were
// any.
bool TakeUnmapped(const exec::NetworkState& state, NetworkRecord* record);

// Returns a plan with only the ports, for a network whose ports mountd does not
// map.
exec::NetworkPlan PortsPlanOf(const NetworkRecord& record);

// Returns the origin for the plan. Only the plan for the namespace's last
// network may end the namespace.
exec::NamespaceOrigin OriginOf(const NetworkRecord& record, bool alone);

}  // namespace mountd
