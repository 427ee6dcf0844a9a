// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-cni/attachment_removal.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "agent/mountd-cni/attachment_ids.h"

namespace mountd::cni_plugin {
namespace {

Result<void> SuccessIfNotFound(Result<void> result) {
  return !result && result.error().code == Code::kNotFound ? Ok() : result;
}

// True for an allocation with a use beyond the networks of this plugin.
bool IsUsed(const agent::AllocationStatus& status) {
  return !status.networks.empty() || !status.volumes.empty() ||
         !status.mounts.empty();
}

// Releases an allocation that has nothing. A task driver may publish a volume
// after `status`, so mountd looks again.
Result<void> ReleaseIfEmpty(agent::Client& client,
                            const agent::AllocationStatus& status) {
  if (IsUsed(status)) {
    return Ok();
  }
  const auto released = client.ReleaseAllocation(
      status.id, agent::OnTasks::kRefuse, agent::OnlyIf::kEmpty);
  if (released || released.error().code == Code::kBusy) {
    return Ok();
  }
  // mountd 0.1.0 has no such option.
  return released.error().code == Code::kNotSupported
             ? Release(client, status.id)
             : SuccessIfNotFound(released.error());
}

// Removes the attachments of one network configuration that are not valid any
// more.
class Garbage {
 public:
  Garbage(agent::Client& client, const Config& config)
      : client_(client), config_(config) {
    for (const cni::Attachment& one : config.valid_attachments) {
      const std::string allocation = AllocationOf(one.container_id);
      valid_.insert(allocation);
      valid_.insert(MarkerOf(allocation, one.ifname));
    }
  }

  Result<void> Collect() {
    MOUNTD_ASSIGN(const std::vector<agent::AllocationEntry> entries,
                  client_.ListAllocations());
    for (const agent::AllocationEntry& entry : entries) {
      const auto id = ParseAllocationId(entry.id);
      if (!id || entry.uid != ::geteuid()) {
        continue;
      }
      if (id->ifname.empty()) {
        allocations_.emplace(id->allocation, entry.scope);
      } else {
        markers_.emplace(entry.id, entry.scope);
      }
    }
    for (const auto& [allocation, scope] : allocations_) {
      Note(CollectFrom(allocation, scope));
    }
    // Keeps the markers while an interface is left, because a marker says which
    // configuration the interface belongs to.
    if (!first_) {
      CollectMarkers();
    }
    return first_ ? Result<void>(*first_) : Ok();
  }

 private:
  void Note(const Result<void>& result) {
    if (!result && !first_) {
      first_ = result.error();
    }
  }

  bool IsGarbage(const std::string& marker, const std::string& scope) const {
    const auto own = markers_.find(marker);
    return (own == markers_.end() ? scope : own->second) == config_.name &&
           !valid_.contains(marker);
  }

  Result<void> CollectFrom(const std::string& allocation,
                           const std::string& scope) {
    MOUNTD_ASSIGN(const auto status, FindAllocation(client_, allocation));
    if (!status) {
      return Ok();
    }
    for (const agent::NetworkStatus& network : status->networks) {
      // The namespace itself, which the task driver of a container has made, is
      // no attachment.
      if (network.interface == "lo") {
        continue;
      }
      const std::string marker = MarkerOf(allocation, network.interface);
      if (IsGarbage(marker, scope)) {
        MOUNTD_TRY(
            Detach(client_, allocation, network.interface, config_.name));
        markers_.erase(marker);
      }
    }
    // An ADD that was killed leaves an allocation without a network.
    return scope == config_.name && !valid_.contains(allocation)
               ? ReleaseIfEmpty(client_, *status)
               : Ok();
  }

  // Releases markers whose interface was removed without a DEL of this plugin.
  void CollectMarkers() {
    for (const auto& [marker, scope] : markers_) {
      if (IsGarbage(marker, scope)) {
        Note(Release(client_, marker));
      }
    }
  }

  agent::Client& client_;
  const Config& config_;
  std::set<std::string> valid_;  // ids of allocations and markers
  std::map<std::string, std::string> allocations_;  // scopes
  std::map<std::string, std::string> markers_;
  std::optional<Error> first_;
};

}  // namespace

Result<std::optional<agent::AllocationStatus>> FindAllocation(
    agent::Client& client, const std::string& allocation) {
  auto status = client.GetAllocation(allocation);
  if (!status && status.error().code == Code::kNotFound) {
    return std::optional<agent::AllocationStatus>();
  }
  if (!status) {
    return std::move(status).error();
  }
  return std::optional<agent::AllocationStatus>(*std::move(status));
}

Result<void> Release(agent::Client& client, const std::string& allocation) {
  const auto released = client.ReleaseAllocation(allocation);
  return SuccessIfNotFound(released ? Ok() : Result<void>(released.error()));
}

Result<void> Tidy(agent::Client& client, const std::string& allocation,
                  const std::string& ifname, const std::string& name) {
  MOUNTD_ASSIGN(const auto status, FindAllocation(client, allocation));
  if (!status) {
    return Ok();
  }
  const bool there =
      std::any_of(status->networks.begin(), status->networks.end(),
                  [&](const agent::NetworkStatus& network) {
                    return network.interface == ifname;
                  });
  if (there) {
    return Ok();
  }
  // Releases the marker first, because the next DEL finds the marker only by
  // its allocation.
  if (status->scope != name) {
    MOUNTD_TRY(Release(client, MarkerOf(allocation, ifname)));
  }
  return ReleaseIfEmpty(client, *status);
}

Result<void> Detach(agent::Client& client, const std::string& allocation,
                    const std::string& ifname, const std::string& name) {
  MOUNTD_TRY(SuccessIfNotFound(client.TeardownNetwork(allocation, ifname)));
  return Tidy(client, allocation, ifname, name);
}

Result<void> DetachAll(agent::Client& client, const std::string& allocation) {
  MOUNTD_TRY(SuccessIfNotFound(client.TeardownNetwork(allocation)));
  MOUNTD_ASSIGN(const auto status, FindAllocation(client, allocation));
  return status ? ReleaseIfEmpty(client, *status) : Ok();
}

Result<void> CollectGarbage(agent::Client& client, const Config& config) {
  return Garbage(client, config).Collect();
}

}  // namespace mountd::cni_plugin
