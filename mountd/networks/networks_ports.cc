// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The part of Networks that replaces the ports of an existing network.
#include <spdlog/spdlog.h>

#include <utility>

#include "mountd/networks/networks.h"
#include "mountd/networks/record_to_plan.h"

namespace mountd {
namespace {

// Returns the plan that replaces the ports of `from` by those of `to`.
exec::PortsPlan PlanOfUpdate(const NetworkRecord& from,
                             const NetworkRecord& to) {
  exec::PortsPlan plan;
  plan.network = PlanOf(to, exec::NamespaceOrigin::kExisting);
  const exec::NetworkPlan old = PlanOf(from, exec::NamespaceOrigin::kExisting);
  plan.old_count = old.port_count;
  plan.old_ports = old.ports;
  return plan;
}

NetworkRecord WithPorts(NetworkRecord record, std::vector<PortMapping> ports) {
  record.ports = std::move(ports);
  record.next_ports.reset();
  return record;
}

// Returns the record without the protocols that are mapped only if they are
// free.
NetworkRecord WithoutIfFree(NetworkRecord record) {
  for (PortMapping& port : record.ports) {
    port.protocols = static_cast<std::uint8_t>(port.protocols & ~port.if_free);
  }
  return record;
}

// Returns whether the kernel has the network's link and all of the record's
// ports.
Result<bool> IsWholeThere(exec::NetworkExecutor& executor,
                          const NetworkRecord& record) {
  MOUNTD_ASSIGN(const exec::NetworkState there,
                executor.InspectNetwork(
                    PlanOf(record, exec::NamespaceOrigin::kExisting)));
  return there.elements_present != 0 && there.host_ifindex != 0;
}

// Returns whether the executor refused the plan because some port is no longer
// granted by any rule.
bool IsNotGranted(const Result<exec::NetworkState>& state) {
  return !state && state.error().code == Code::kInvalidArgument;
}

}  // namespace

Result<NetworkRecord> Networks::FindBridge(const std::string& allocation,
                                           const std::string& interface) {
  MOUNTD_ASSIGN(const NetworkStatus status, Get(allocation, interface));
  MOUNTD_ASSIGN(std::vector<NetworkRecord> records,
                store_.networks.NetworksOf(allocation));
  for (NetworkRecord& record : records) {
    if (record.interface == status.interface &&
        record.mode == NetworkMode::kBridge) {
      return std::move(record);
    }
  }
  return MakeError(Code::kFailedPrecondition, "update ports",
                   "network of " + allocation,
                   "mountd maps ports only in mode bridge; tear the network "
                   "down and set it up with the ports");
}

Result<NetworkStatus> Networks::UpdatePorts(
    const std::string& allocation, const std::string& interface,
    const std::vector<PortMapping>& ports, const Progress& progress) {
  MOUNTD_ASSIGN(NetworkRecord record, FindBridge(allocation, interface));
  NetworkRequest request;
  request.network = record.network;
  request.interface = record.interface;
  request.ports = ports;
  MOUNTD_ASSIGN(request, Normalised(std::move(request)));
  progress.At(Step::kNetwork);
  MOUNTD_TRY(Settle(&record));
  if (AsAskedFor(record.ports) == request.ports) {
    return StatusOf(record);
  }
  NetworkRecord next = WithPorts(record, request.ports);
  MOUNTD_TRY(ReserveNext(record, &next));
  // The intent comes first, so that after a restart mountd knows both sets of
  // ports.
  record.next_ports = next.ports;
  if (Result<void> noted = store_.networks.SetNetworkPorts(record); !noted) {
    IgnoreBecauseBestEffort(PassPorts(next, record));
    return std::move(noted).error();
  }
  Result<exec::NetworkState> updated =
      executor_.UpdatePorts(PlanOfUpdate(record, next));
  if (!updated) {
    // Settle the outcome, because the executor may have done the update
    // although the answer was lost. If Settle fails, the next call or the next
    // start repeats it.
    IgnoreBecauseBestEffort(Settle(&record));
    return std::move(updated).error();
  }
  MOUNTD_TRY(KeepUpdated(*updated, &next));
  return StatusOf(next);
}

Result<void> Networks::KeepUpdated(const exec::NetworkState& state,
                                   NetworkRecord* record) {
  TakeUnmapped(state, record);
  MOUNTD_TRY(PassPorts(*record, *record));
  return store_.networks.SetNetworkPorts(*record);
}

// Ends an update whose outcome is unknown. The kernel has the old ports or the
// next ones, because the executor replaces them in one transaction.
//
// Chooses the next ports if the kernel has all of them, because then nothing
// can refuse them, and if the rules of the network's user still grant them. The
// executor cannot check this user's rules, because it does not know the user.
// Otherwise chooses the old ports, because no caller was told that the next
// ones are mapped.
Result<void> Networks::Settle(NetworkRecord* record) {
  if (!record->next_ports) {
    return Ok();
  }
  const NetworkRecord old = WithPorts(*record, record->ports);
  const NetworkRecord next = WithPorts(*record, *record->next_ports);
  MOUNTD_ASSIGN(const bool is_next_there,
                IsWholeThere(executor_, WithoutIfFree(next)));
  const bool forward = is_next_there && events_.grants_ports(next);
  NetworkRecord settled = forward ? next : old;
  Result<exec::NetworkState> state =
      executor_.UpdatePorts(PlanOfUpdate(forward ? old : next, settled));
  if (forward && IsNotGranted(state)) {
    settled = old;
    state = executor_.UpdatePorts(PlanOfUpdate(next, old));
  }
  if (IsNotGranted(state)) {
    // No rule grants the chosen ports. If the kernel has them already, no plan
    // is needed.
    settled = is_next_there ? next : old;
    MOUNTD_ASSIGN(const bool there, IsWholeThere(executor_, settled));
    if (there) {
      state = exec::NetworkState{};
    }
  }
  if (!state) {
    return std::move(state).error();
  }
  MOUNTD_TRY(KeepUpdated(*state, &settled));
  *record = std::move(settled);
  return Ok();
}

void Networks::SettleAtStart(const NetworkRecord& record) {
  NetworkRecord pending = record;
  if (const Result<void> settled = Settle(&pending); !settled) {
    spdlog::warn(
        "recovery: the ports of network {}/{} were being replaced, and mountd "
        "cannot say which are mapped: {}",
        record.allocation, record.interface, settled.error().Message());
  }
}

}  // namespace mountd
