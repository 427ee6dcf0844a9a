// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/live_processes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "mountd/executors/task_copies.h"

namespace mountd {
namespace {

using Found = std::optional<LiveProcesses>;

std::optional<std::string> AnsweringPluginOf(const ServiceParts& parts,
                                             const std::string& allocation) {
  for (const csi::PluginStatus& plugin : parts.plugins.List()) {
    for (const csi::PluginInstance& instance : plugin.instances) {
      if (instance.record.allocation == allocation &&
          instance.state == csi::PluginState::kHealthy) {
        return plugin.record.id;
      }
    }
  }
  return std::nullopt;
}

// Evaluates a search of the executor. One process that was found is enough. An
// empty result counts only if the search saw every process.
Result<Found> Judge(const exec::HoldersState& state, const std::string& where) {
  HolderReport report = ReportOf(state);
  if (!report.holders.empty() || report.more) {
    return Found(LiveProcesses{"processes " + where, std::move(report)});
  }
  // init is not a task, so a search that skipped only init is complete.
  if (state.incomplete != 0) {
    return MakeError(Code::kDeadlineExceeded, "look for", "processes " + where,
                     "mountd could not look at every process");
  }
  return Found();
}

std::uint32_t BudgetMs(const ServiceParts& parts) {
  return SearchBudgetMs(parts.config.timeouts().plan);
}

// Returns the inode of the allocation's own namespace; 0: it has none.
Result<std::uint64_t> NamespaceOf(const ServiceParts& parts,
                                  const std::string& allocation) {
  MOUNTD_ASSIGN(const std::vector<NetworkRecord> networks,
                parts.boot.networks.NetworksOf(allocation));
  const auto own = std::find_if(
      networks.begin(), networks.end(), [](const NetworkRecord& network) {
        return HasNamespace(network.mode) && network.netns_inode != 0;
      });
  return own == networks.end() ? 0 : own->netns_inode;
}

Result<Found> FindMembers(const ServiceParts& parts, std::uint64_t cgroup,
                          std::uint64_t netns) {
  if (cgroup == 0 && netns == 0) {
    return Found();
  }
  const Result<exec::HoldersState> state =
      parts.executor.FindProcesses({cgroup, netns, BudgetMs(parts)});
  // If the cgroup is gone, look only in the namespace.
  if (!state && state.error().code == Code::kNotFound && cgroup != 0) {
    return FindMembers(parts, 0, netns);
  }
  if (!state) {
    return state.error();
  }
  return Judge(*state, cgroup == 0  ? "in its network namespace"
                       : netns == 0 ? "in its cgroup"
                                    : "in its cgroup or network namespace");
}

struct Used {
  std::uint64_t mount_id;
  std::string what;
};

Result<std::vector<Used>> MountsOf(const ServiceParts& parts,
                                   const std::string& allocation) {
  std::vector<Used> all;
  MOUNTD_ASSIGN(const std::vector<MountRecord> mounts,
                parts.boot.mounts.MountsOf(allocation));
  for (const MountRecord& mount : mounts) {
    all.push_back(
        {mount.mount_id, "that use mount " + mount.task + "/" + mount.name});
  }
  MOUNTD_ASSIGN(const std::vector<PublicationRecord> publications,
                parts.state.volumes.PublicationsOf(allocation));
  for (const PublicationRecord& one : publications) {
    all.push_back({one.mount_id, "that use volume " + one.alias});
  }
  std::erase_if(all, [](const Used& used) { return used.mount_id == 0; });
  return all;
}

}  // namespace

Result<Found> FindLiveProcesses(const ServiceParts& parts,
                                const AllocationRecord& record) {
  if (const auto plugin = AnsweringPluginOf(parts, record.id)) {
    return Found(LiveProcesses{"plugin " + *plugin + " of it answers", {}});
  }
  MOUNTD_ASSIGN(const std::uint64_t netns, NamespaceOf(parts, record.id));
  MOUNTD_ASSIGN(Found found, FindMembers(parts, record.cgroup, netns));
  if (found || record.cgroup != 0) {
    return found;
  }
  MOUNTD_ASSIGN(const std::vector<Used> mounts, MountsOf(parts, record.id));
  for (const Used& mount : mounts) {
    MOUNTD_ASSIGN(
        const exec::HoldersState state,
        parts.executor.FindHolders(
            {mount.mount_id, exec::HolderScope::kNode, BudgetMs(parts), 0}));
    MOUNTD_ASSIGN(found, Judge(state, mount.what));
    if (found) {
      return found;
    }
  }
  return Found();
}

}  // namespace mountd
