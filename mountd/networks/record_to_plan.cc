// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/networks/record_to_plan.h"

#include <algorithm>
#include <cstdint>

#include "mountd/plan/wire.h"

namespace mountd {
namespace {

exec::PortMap PortPlanOf(const PortMapping& port) {
  exec::PortMap plan;
  plan.host_port = port.host_port;
  plan.container_port = port.container_port;
  plan.count = port.count;
  plan.protocols = port.protocols;
  plan.host_family = static_cast<std::uint8_t>(port.host_address.family);
  plan.host_address = port.host_address.bytes;
  plan.if_free = static_cast<std::uint8_t>(port.if_free & port.protocols);
  return plan;
}

// Puts the ports into the plan, except ports without any protocol.
void PutPorts(const NetworkRecord& record, exec::NetworkPlan* plan) {
  for (const PortMapping& port : record.ports) {
    if (port.protocols != 0 && plan->port_count < plan->ports.size()) {
      plan->ports.at(plan->port_count++) = PortPlanOf(port);
    }
  }
}

}  // namespace

exec::NetworkPlan PlanOf(const NetworkRecord& record,
                         exec::NamespaceOrigin origin) {
  exec::NetworkPlan plan;
  plan.allocation = exec::ToWire(record.allocation);
  plan.origin = origin;
  plan.netns_inode = record.netns_inode;
  if (record.mode != NetworkMode::kBridge) {
    return plan;  // the plan concerns only the namespace
  }
  plan.network = exec::ToWire(record.network);
  record.interface.copy(plan.interface.data(), plan.interface.size() - 1);
  plan.ipv4 = record.ipv4;
  plan.ipv6 = record.ipv6;
  plan.flags = record.flags;
  PutPorts(record, &plan);
  return plan;
}

bool TakeUnmapped(const exec::NetworkState& state, NetworkRecord* record) {
  std::size_t place = 0;  // in the plan
  bool any = false;
  for (PortMapping& port : record->ports) {
    if (port.protocols == 0 || place == state.unmapped.size()) {
      continue;
    }
    const unsigned unmapped = state.unmapped.at(place++) & port.if_free;
    any = any || (port.protocols & unmapped) != 0;
    port.protocols = static_cast<std::uint8_t>(port.protocols & ~unmapped);
  }
  return any;
}

exec::NetworkPlan PortsPlanOf(const NetworkRecord& record) {
  exec::NetworkPlan plan;
  plan.allocation = exec::ToWire(record.allocation);
  PutPorts(record, &plan);
  return plan;
}

exec::NamespaceOrigin OriginOf(const NetworkRecord& record, bool alone) {
  if (!alone) {
    return exec::NamespaceOrigin::kExisting;
  }
  return record.netns_given ? exec::NamespaceOrigin::kGiven
                            : exec::NamespaceOrigin::kNew;
}

}  // namespace mountd
