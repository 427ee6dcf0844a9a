// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-cni/abandoned.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "agent/mountd-cni/attachment_ids.h"
#include "agent/mountd-cni/attachment_removal.h"
#include "agent/mountd-cni/namespace_holders.h"

namespace mountd::cni_plugin {
namespace {

using agent::AllocationEntry;
using agent::AllocationStatus;
using agent::NetworkStatus;

bool Overlap(const agent::Port& a, const agent::Port& b) {
  const bool same_address = a.host_address == b.host_address ||
                            a.host_address.empty() || b.host_address.empty();
  return same_address && a.host < b.host + b.count && b.host < a.host + a.count;
}

class Room {
 public:
  Room(agent::Client& client, const Environment& environment,
       const Config& config, const Netns& netns, Own own)
      : client_(client),
        own_(AllocationOf(environment.container_id)),
        ifname_(environment.ifname),
        config_(config),
        netns_(netns),
        may_remove_own_(own == Own::kRemove) {}

  Result<bool> Make() {
    MOUNTD_ASSIGN(entries_, client_.ListAllocations());
    bool made = false;
    for (const AllocationEntry& entry : entries_) {
      const auto id = ParseAllocationId(entry.id);
      const bool may_go = may_remove_own_ || entry.id != own_;
      if (id && id->ifname.empty() && may_go && entry.uid == ::geteuid()) {
        MOUNTD_ASSIGN(const bool gone, Judge(entry));
        made = made || gone;
      }
    }
    return made;
  }

 private:
  Result<bool> Judge(const AllocationEntry& entry) {
    MOUNTD_ASSIGN(const std::optional<AllocationStatus> status,
                  FindAllocation(client_, entry.id));
    if (!status || status->networks.empty()) {
      return false;
    }
    const bool is_here = status->networks.front().netns_inode == netns_.inode;
    if (entry.id == own_ && is_here) {
      return RemoveOwn(*status);
    }
    if (HasDriver(*status)) {
      return false;
    }
    if (entry.id != own_ && !is_here && !IsInTheWay(*status)) {
      return false;
    }
    MOUNTD_ASSIGN(const bool abandoned, IsAbandoned(entry, *status, is_here));
    if (!abandoned) {
      return false;
    }
    MOUNTD_TRY(Remove(entry.id));
    return true;
  }

  // True if a task driver has made the namespace. The driver itself ends its
  // networks, also those whose DEL never came. IsHeld cannot protect such a
  // namespace, because before the first task only mountd keeps it.
  static bool HasDriver(const AllocationStatus& status) {
    return std::any_of(
        status.networks.begin(), status.networks.end(),
        [](const NetworkStatus& one) { return one.interface == "lo"; });
  }

  // Releases the markers first, because the next ADD finds the markers only by
  // their allocation.
  Result<void> Remove(const std::string& allocation) {
    for (const AllocationEntry& other : entries_) {
      const auto id = ParseAllocationId(other.id);
      if (id && id->allocation == allocation && !id->ifname.empty() &&
          other.uid == ::geteuid()) {
        MOUNTD_TRY(Release(client_, other.id));
      }
    }
    return DetachAll(client_, allocation);
  }

  Result<bool> RemoveOwn(const AllocationStatus& status) {
    const bool has = std::any_of(
        status.networks.begin(), status.networks.end(),
        [&](const NetworkStatus& one) { return one.interface == ifname_; });
    if (has) {
      MOUNTD_TRY(client_.TeardownNetwork(own_, ifname_));
    }
    return has;
  }

  bool IsInTheWay(const AllocationStatus& status) const {
    const RuntimeConfig& asked = config_.runtime;
    return std::any_of(
        status.networks.begin(), status.networks.end(),
        [&](const NetworkStatus& one) {
          return (!asked.address.empty() && asked.address == one.address) ||
                 (!asked.address6.empty() && asked.address6 == one.address6) ||
                 std::any_of(asked.ports.begin(), asked.ports.end(),
                             [&](const agent::Port& port) {
                               return HasPort(one, port);
                             });
        });
  }

  static bool HasPort(const NetworkStatus& network, const agent::Port& port) {
    return std::any_of(
        network.ports.begin(), network.ports.end(),
        [&](const agent::Port& other) { return Overlap(port, other); });
  }

  Result<bool> IsAbandoned(const AllocationEntry& entry,
                           const AllocationStatus& status, bool is_here) {
    agent::Reconciliation question;
    question.scope = entry.scope;
    // The highest epoch, so that mountd never finds it too old. A dry run
    // records no epoch.
    question.epoch = std::numeric_limits<std::uint64_t>::max();
    question.dry_run = true;
    for (const AllocationEntry& other : entries_) {
      if (other.scope == entry.scope && other.id != entry.id) {
        question.wanted.push_back(other.id);
      }
    }
    MOUNTD_ASSIGN(const auto judged, client_.Reconcile(question));
    const bool lifeless = std::any_of(
        judged.begin(), judged.end(),
        [&](const agent::ReconciledAllocation& one) {
          return one.allocation == entry.id && one.outcome == "unwanted";
        });
    const NetworkStatus& network = status.networks.front();
    return lifeless &&
           (is_here || !IsHeld(network.netns_inode, network.netns_path));
  }

  agent::Client& client_;
  const std::string own_;
  const std::string ifname_;
  const Config& config_;
  const Netns& netns_;
  const bool may_remove_own_;
  std::vector<AllocationEntry> entries_;
};

}  // namespace

Result<bool> MakeRoom(agent::Client& client, const Environment& environment,
                      const Config& config, const Netns& netns, Own own) {
  return Room(client, environment, config, netns, own).Make();
}

}  // namespace mountd::cni_plugin
