// SPDX-License-Identifier: LGPL-2.1-or-later
#include <algorithm>
#include <string>
#include <vector>

#include "mountd/networks/etc_files.h"
#include "mountd/networks/networks.h"
#include "mountd/networks/record_to_plan.h"
#include "mountd/plan/wire.h"

namespace mountd {

Result<void> Networks::DeleteParts(const NetworkRecord& record, bool alone) {
  if (record.next_ports) {
    // The update's outcome is unknown, so the kernel may have these ports
    // instead.
    NetworkRecord next = record;
    next.ports = *record.next_ports;
    MOUNTD_TRY(executor_.DeleteNetwork(
        PlanOf(next, exec::NamespaceOrigin::kExisting)));
  }
  const bool ends_namespace = alone && HasNamespace(record.mode);
  if (ends_namespace || record.mode == NetworkMode::kBridge) {
    MOUNTD_TRY(
        executor_.DeleteNetwork(PlanOf(record, OriginOf(record, alone))));
  }
  if (HasFiles(record)) {
    exec::NetworkFilePlan files;
    files.allocation = exec::ToWire(record.allocation);
    MOUNTD_TRY(executor_.RemoveNetworkFiles(files));
  }
  return Ok();
}

Result<void> Networks::Delete(NetworkRecord record, bool alone,
                              const Progress& progress) {
  if (!alone && !HasInterface(record.mode)) {
    return MakeError(
        Code::kFailedPrecondition, "tear down",
        "namespace of " + record.allocation,
        "other networks of the allocation still use it; tear them down first");
  }
  record.state = NetworkRecordState::kDeleting;
  // The intent comes first, so that a restart finishes the removal.
  MOUNTD_TRY(store_.networks.SetNetworkState(record));
  if (record.mode == NetworkMode::kCni) {
    progress.At(Step::kCniDel);
    // Detach first, because plugins need the namespace for it.
    MOUNTD_TRY(cni_.Detach(record));
  }
  progress.At(Step::kNetwork);
  MOUNTD_TRY(DeleteParts(record, alone));
  // The addresses wait in quarantine, because a link keeps its addresses until
  // the kernel has ended it.
  if (record.mode == NetworkMode::kBridge) {
    MOUNTD_TRY(store_.networks.QuarantineNetwork(record));
    events_.check_again();
  } else {
    MOUNTD_TRY(store_.networks.RemoveNetwork(record));
  }
  FreePorts(record);
  room_.Free(record);
  events_.gone(record);
  return Ok();
}

Result<void> Networks::Teardown(const std::string& allocation,
                                const std::string& interface,
                                const Progress& progress) {
  MOUNTD_ASSIGN(const std::vector<NetworkRecord> records,
                store_.networks.NetworksOf(allocation));
  for (const NetworkRecord& record : records) {
    if (record.interface == interface) {
      return Delete(record, records.size() == 1, progress);
    }
  }
  return Ok();
}

Result<std::vector<std::string>> Networks::TeardownOrder(
    const std::string& allocation) {
  MOUNTD_ASSIGN(std::vector<NetworkRecord> records,
                store_.networks.NetworksOf(allocation));
  // A record that is only the namespace comes last, because the others are in
  // that namespace.
  std::stable_partition(
      records.begin(), records.end(),
      [](const NetworkRecord& record) { return HasInterface(record.mode); });
  std::vector<std::string> interfaces;
  interfaces.reserve(records.size());
  for (const NetworkRecord& record : records) {
    interfaces.push_back(record.interface);
  }
  return interfaces;
}

bool Networks::IsOverdue(const std::string& link) {
  const std::lock_guard lock(mutex_);
  // emplace keeps the time at which the link was first seen.
  const auto since = dying_.emplace(link, Clock::now()).first->second;
  return Clock::now() - since >= events_.link_grace;
}

void Networks::ReapQuarantine() {
  const Result<std::vector<QuarantineRecord>> quarantine =
      store_.networks.ListQuarantine();
  if (!quarantine) {
    events_.check_again();
    return;
  }
  bool some_left = false;
  for (const QuarantineRecord& record : *quarantine) {
    NetworkRecord former;
    former.allocation = record.allocation;
    former.network = record.network;
    former.interface = netns::kAllocationLink;
    former.ipv4 = record.ipv4;
    former.ipv6 = record.ipv6;
    // kExisting, because the namespace that now has the allocation's name is a
    // new one, which this plan must not end.
    const exec::NetworkPlan plan =
        PlanOf(former, exec::NamespaceOrigin::kExisting);
    const Result<exec::NetworkState> state = executor_.InspectNetwork(plan);
    if (!state || state->host_ifindex != 0 ||
        !store_.networks.EndQuarantine(record)) {
      some_left = true;
      if (IsOverdue(netns::LinkNameOf(record))) {
        // A process may keep the namespace alive, so delete the link itself.
        IgnoreBecauseBestEffort(executor_.DeleteNetwork(plan));
      }
      continue;
    }
    {
      const std::lock_guard lock(mutex_);
      dying_.erase(netns::LinkNameOf(record));
    }
    FreeAddresses(record.network, record.ipv4, record.ipv6);
  }
  if (some_left) {
    events_.check_again();
  }
}

}  // namespace mountd
