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
  return plan;
}

void PutPorts(const NetworkRecord& record, exec::NetworkPlan* plan) {
  plan->port_count = static_cast<std::uint32_t>(
      std::min(record.ports.size(), plan->ports.size()));
  for (std::size_t i = 0; i < plan->port_count; ++i) {
    plan->ports.at(i) = PortPlanOf(record.ports.at(i));
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
