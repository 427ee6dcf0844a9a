// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "mountd/base/paths.h"
#include "mountd/plan/wire.h"

namespace mountd {
namespace {

std::string HostPath(const std::string& allocation) {
  return std::string(paths::kBase) + "/" + paths::kAllocations + "/" +
         allocation;
}

}  // namespace

bool Service::Sees(const Caller& caller, std::uint32_t uid) const {
  return caller.uid == uid || PolicyNow().MayAdminister(caller);
}

// The user who registered a plugin, and users who may use or control it, see
// it.
bool Service::SeesPlugin(const Caller& caller,
                         const PluginRecord& plugin) const {
  return Sees(caller, plugin.uid) ||
         PolicyNow().MayUsePlugin(caller, plugin.id) ||
         PolicyNow().MayControlPlugin(caller, plugin.id);
}

Result<AllocationRecord> Service::Find(const CallContext& call,
                                       const std::string& allocation) {
  MOUNTD_ASSIGN(std::optional<AllocationRecord> record,
                parts_.state.GetAllocation(allocation));
  if (!record) {
    return MakeError(Code::kNotFound, "find", "allocation " + allocation,
                     "is not prepared");
  }
  MOUNTD_TRY(PolicyFor(call).MayUse(call.caller, record->uid,
                                    "allocation " + allocation));
  return *std::move(record);
}

Result<AllocationRecord> Service::FindPrepared(const CallContext& call,
                                               const std::string& allocation) {
  MOUNTD_ASSIGN(AllocationRecord record, Find(call, allocation));
  if (record.state != AllocationState::kPrepared) {
    return MakeError(Code::kFailedPrecondition, "use",
                     "allocation " + allocation,
                     "is being released; wait for its end");
  }
  return record;
}

// Returns the owner of an allocation without a record: the user whom its
// directory lets pass, because root's executor wrote that down. A mountd from
// before access lists let a group pass instead. The owner then is the user that
// the records of its mounts name, or else root.
Result<std::uint32_t> Service::OwnerOf(const exec::FoundTarget& found) {
  if (found.uid != 0) {
    return found.uid;
  }
  MOUNTD_ASSIGN(const std::vector<MountRecord> mounts,
                parts_.boot.MountsOf(exec::Text(found.target.allocation)));
  const std::uint32_t uid = mounts.empty() ? 0 : mounts.front().uid;
  const bool same =
      std::all_of(mounts.begin(), mounts.end(),
                  [uid](const MountRecord& mount) { return mount.uid == uid; });
  return same ? uid : 0;
}

// Rebuilds a lost store from the other store and from the directories and
// mounts that exist. Makes root the owner where no record names one, because no
// user may get what may be another's.
Result<void> Service::RecordFound() {
  MOUNTD_ASSIGN(const std::vector<exec::FoundTarget> all,
                parts_.executor.ListTargets());
  for (const exec::FoundTarget& found : all) {
    const std::string id = exec::Text(found.target.allocation);
    MOUNTD_ASSIGN(std::optional<AllocationRecord> owner,
                  parts_.state.GetAllocation(id));
    if (!owner) {
      MOUNTD_ASSIGN(const std::uint32_t uid, OwnerOf(found));
      owner.emplace(AllocationRecord{id, uid, /*gid=*/0, "",
                                     AllocationState::kPrepared, 0});
      spdlog::warn(
          "recovery: allocation {} has no record; mountd keeps it for its "
          "owner, uid {}",
          id, uid);
      if (const auto added = parts_.state.AddAllocation(*owner); !added) {
        // Leaves it as it is, because one allocation must not keep mountd from
        // serving all.
        spdlog::error("recovery: {}", added.error().Message());
        continue;
      }
    }
    MOUNTD_TRY(parts_.mounts.RecordFound(found, owner->uid));
  }
  return Ok();
}

Result<void> Service::Recover() {
  MOUNTD_TRY(RecordFound());
  MOUNTD_ASSIGN(const std::vector<AllocationRecord> allocations,
                parts_.state.ListAllocations());
  for (const AllocationRecord& record : allocations) {
    if (record.state != AllocationState::kPrepared) {
      continue;
    }
    if (const auto made = parts_.executor.PrepareAllocation(PlanOf(record));
        !made) {
      // A broken directory must not keep mountd from starting. The next
      // PrepareAllocation returns the same error.
      spdlog::warn("recovery: {}", made.error().Message());
    }
    if (const auto made = parts_.mounts.RecoverInboxes(record.id); !made) {
      spdlog::warn("recovery: {}", made.error().Message());
    }
  }
  return Ok();
}

// ---- Allocations ----

// Finishes a release that has only the directory left, and returns whether it
// did. A PrepareAllocation that fails and cannot be undone leaves such a
// release, and the same call must succeed later. The caller's call can do it,
// because it is one plan.
Result<bool> Service::FinishBareRelease(const CallContext& call,
                                        const AllocationRecord& record) {
  if (record.state == AllocationState::kPrepared) {
    return false;
  }
  MOUNTD_TRY(PolicyFor(call).MayUse(call.caller, record.uid,
                                    "allocation " + record.id));
  MOUNTD_ASSIGN(const std::vector<MountRecord> mounts,
                parts_.boot.MountsOf(record.id));
  MOUNTD_ASSIGN(const std::vector<NetworkRecord> networks,
                parts_.boot.NetworksOf(record.id));
  MOUNTD_ASSIGN(const std::vector<PublicationRecord> volumes,
                parts_.state.PublicationsOf(record.id));
  if (!mounts.empty() || !networks.empty() || !volumes.empty()) {
    return false;
  }
  MOUNTD_TRY(teardowns_.Release(
      record, {OnTasks::kRefuse, call.progress, call.cancelled}));
  return true;
}

Result<std::string> Service::PrepareAllocation(const CallContext& call,
                                               const Name& allocation,
                                               const std::string& scope,
                                               std::uint64_t cgroup) {
  MOUNTD_TRY(PolicyFor(call).MayPrepare(call.caller));
  MOUNTD_ASSIGN(std::optional<AllocationRecord> known,
                parts_.state.GetAllocation(allocation.str()));
  if (known) {
    MOUNTD_ASSIGN(const bool released, FinishBareRelease(call, *known));
    if (released) {
      known.reset();
    }
  }
  if (known) {
    MOUNTD_ASSIGN(const AllocationRecord record,
                  FindPrepared(call, allocation.str()));
    prepared_.Note(record.id);
    MOUNTD_TRY(CheckCgroup(call, cgroup));
    MOUNTD_TRY(parts_.executor.PrepareAllocation(PlanOf(record)));
    if (cgroup != 0 && cgroup != record.cgroup) {
      MOUNTD_TRY(parts_.state.SetAllocationCgroup(record.id, cgroup));
    }
    return HostPath(record.id);
  }
  MOUNTD_ASSIGN(const std::uint32_t count,
                parts_.state.CountAllocations(call.caller.uid));
  if (count >= parts_.config.limits().allocations_per_uid) {
    return MakeError(Code::kResourceExhausted, "prepare",
                     "allocation " + allocation.str(),
                     "limits.allocations_per_uid is reached; release others of "
                     "this user or raise the limit");
  }
  MOUNTD_TRY(CheckCgroup(call, cgroup));
  const AllocationRecord record{
      allocation.str(),           call.caller.uid, call.caller.gid, scope,
      AllocationState::kPrepared, cgroup};
  // The record comes first, so that a start knows the directory's owner.
  MOUNTD_TRY(parts_.state.AddAllocation(record));
  prepared_.Note(record.id);
  if (Result<void> made = parts_.executor.PrepareAllocation(PlanOf(record));
      !made) {
    Error error = std::move(made).error();
    IgnoreBecauseBestEffort(teardowns_.Release(record));
    return error;
  }
  return HostPath(record.id);
}

Result<bool> Service::OwnsSomething() {
  MOUNTD_ASSIGN(const auto allocations, parts_.state.ListAllocations());
  MOUNTD_ASSIGN(const auto plugins, parts_.state.ListPlugins());
  MOUNTD_ASSIGN(const auto volumes, parts_.state.ListVolumes());
  MOUNTD_ASSIGN(const auto owed, parts_.state.ListOwed());
  // mountd retries these without a pending record.
  MOUNTD_ASSIGN(const auto anchors, parts_.boot.ListAnchors());
  MOUNTD_ASSIGN(const auto quarantine, parts_.boot.ListQuarantine());
  return !allocations.empty() || !plugins.empty() || !volumes.empty() ||
         !owed.empty() || !anchors.empty() || !quarantine.empty() ||
         !parts_.config.plugins().empty();
}

Result<std::vector<std::string>> Service::Reload(const CallContext& call) {
  MOUNTD_TRY(
      PolicyFor(call).MustAdminister(call.caller, "reload", "configuration"));
  return parts_.reload();
}

// Checks the cgroup against the rules, because any process may hold an fd of
// any cgroup, so an fd gives no right.
Result<void> Service::CheckCgroup(const CallContext& call,
                                  std::uint64_t cgroup) {
  if (cgroup == 0) {
    return Ok();
  }
  MOUNTD_ASSIGN(const exec::CgroupState state,
                parts_.executor.InspectCgroup({cgroup}));
  return PolicyFor(call).MayUseCgroup(call.caller, state.path.data());
}

Result<ReceiptRecord> Service::ReleaseAllocation(const CallContext& call,
                                                 const Name& allocation,
                                                 OnTasks on_tasks) {
  MOUNTD_ASSIGN(const std::optional<AllocationRecord> record,
                parts_.state.GetAllocation(allocation.str()));
  if (!record) {
    // It was released before. Return the same answer.
    return GetReceipt(call, allocation);
  }
  MOUNTD_TRY(PolicyFor(call).MayUse(call.caller, record->uid,
                                    "allocation " + allocation.str()));
  return teardowns_.Release(*record, {on_tasks, call.progress, call.cancelled});
}

Result<ReceiptRecord> Service::GetReceipt(const CallContext& call,
                                          const Name& allocation) {
  MOUNTD_ASSIGN(const std::optional<ReceiptRecord> receipt,
                parts_.state.GetReceipt(allocation.str()));
  if (!receipt) {
    return MakeError(Code::kNotFound, "find", "receipt of " + allocation.str(),
                     "mountd has no receipt of this allocation");
  }
  MOUNTD_TRY(PolicyFor(call).MayUse(call.caller, receipt->uid,
                                    "receipt of " + allocation.str()));
  return *receipt;
}

Result<AllocationStatus> Service::GetAllocation(const CallContext& call,
                                                const Name& allocation) {
  AllocationStatus status;
  MOUNTD_ASSIGN(status.record, Find(call, allocation.str()));
  status.host_path = HostPath(allocation.str());
  MOUNTD_ASSIGN(status.networks, parts_.networks.Of(allocation.str()));
  MOUNTD_ASSIGN(status.mounts, parts_.mounts.Of(allocation.str()));
  for (MountConfig& mount : status.mounts) {
    mount.health = parts_.healths.Of(mount.record.mount_id);
  }
  MOUNTD_ASSIGN(status.inboxes, parts_.boot.InboxesOf(allocation.str()));
  MOUNTD_ASSIGN(const std::vector<PublicationRecord> publications,
                parts_.volumes.Of(allocation.str()));
  for (const PublicationRecord& publication : publications) {
    MOUNTD_ASSIGN(const std::optional<VolumeRecord> volume,
                  parts_.state.GetVolume(publication.key));
    MOUNTD_ASSIGN(const std::optional<csi::PublishedVolume> published,
                  parts_.volumes.Get(allocation.str(), publication.alias));
    if (volume && published) {
      status.volumes.push_back({publication, volume->plugin, volume->volume_id,
                                published->host_path});
    }
  }
  return status;
}

Result<std::vector<AllocationRecord>> Service::ListAllocations(
    const CallContext& call) {
  MOUNTD_ASSIGN(std::vector<AllocationRecord> all,
                parts_.state.ListAllocations());
  std::erase_if(all, [&](const AllocationRecord& record) {
    return !Sees(call.caller, record.uid);
  });
  return all;
}

// ---- Trees of files ----

Result<TreeResult> Service::RemoveTree(const CallContext& call,
                                       const UniqueFd& directory) {
  exec::TreePlan plan;
  MOUNTD_ASSIGN(plan.caller, PolicyFor(call).MayPassDirectory(call.caller));
  return mountd::RemoveTree(parts_.executor, call, plan, directory);
}

Result<TreeResult> Service::ChownTree(const CallContext& call,
                                      const UniqueFd& directory,
                                      std::uint32_t uid, std::uint32_t gid) {
  exec::TreePlan plan;
  MOUNTD_ASSIGN(plan.caller,
                PolicyFor(call).MayGiveFilesTo(call.caller, uid, gid));
  plan.uid = uid;
  plan.gid = gid;
  return mountd::ChownTree(parts_.executor, call, plan, directory);
}

// ---- Plugins ----

Result<csi::PluginRegistration> Service::RegisterPlugin(const CallContext& call,
                                                        PluginRecord record) {
  MOUNTD_TRY(PolicyFor(call).MayRegisterPlugin(call.caller, record.id));
  MOUNTD_TRY(CheckNotDeclared("register", record.id));
  if (!record.allocation.empty()) {
    MOUNTD_TRY(FindPrepared(call, record.allocation));
  }
  record.uid = call.caller.uid;
  bool is_new = true;
  if (const auto known = parts_.plugins.Get(record.id)) {
    MOUNTD_TRY(PolicyFor(call).MayUse(call.caller, known->record.uid,
                                      "plugin " + record.id));
    // A registration by an administrator does not change the owner.
    record.uid = known->record.uid;
    is_new = std::none_of(known->instances.begin(), known->instances.end(),
                          [&](const csi::PluginInstance& one) {
                            return one.record.type == record.type &&
                                   one.record.allocation == record.allocation;
                          });
  }
  if (is_new) {
    MOUNTD_TRY(CheckPluginLimit(record.uid));
  }
  return parts_.plugins.Register(record);
}

// Refuses declared plugins, because only the configuration adds and removes
// them.
Result<void> Service::CheckNotDeclared(const char* op,
                                       const std::string& plugin) const {
  if (!parts_.config.plugins().contains(plugin)) {
    return Ok();
  }
  return MakeError(
      Code::kFailedPrecondition, op, "plugin " + plugin,
      "is declared in mountd.toml, so no agent can register or unregister it");
}

// Bounds a user's plugins, because each costs a thread and probes.
Result<void> Service::CheckPluginLimit(std::uint32_t uid) {
  std::size_t count = 0;
  for (const csi::PluginStatus& one : parts_.plugins.List()) {
    count += one.record.uid == uid ? one.instances.size() : 0;
  }
  if (count >= parts_.config.limits().plugins_per_uid) {
    return MakeError(Code::kResourceExhausted, "register", "plugin",
                     "limits.plugins_per_uid is reached; unregister others of "
                     "this user or raise the limit");
  }
  return Ok();
}

Result<void> Service::UnregisterPlugin(const CallContext& call,
                                       const Name& plugin,
                                       const csi::PluginSelection& which) {
  const std::optional<csi::PluginStatus> known =
      parts_.plugins.Get(plugin.str());
  if (!known) {
    return Ok();
  }
  MOUNTD_TRY(PolicyFor(call).MayUse(call.caller, known->record.uid,
                                    "plugin " + plugin.str()));
  MOUNTD_TRY(CheckNotDeclared("unregister", plugin.str()));
  return parts_.plugins.Unregister(plugin.str(), which);
}

Result<csi::PluginStatus> Service::GetPlugin(const CallContext& call,
                                             const Name& plugin) {
  std::optional<csi::PluginStatus> status = parts_.plugins.Get(plugin.str());
  if (!status) {
    return MakeError(Code::kNotFound, "find", "plugin " + plugin.str(),
                     "is not registered");
  }
  if (!SeesPlugin(call.caller, status->record)) {
    return ButAdministrators(MakeError(
        Code::kPermissionDenied, "find", "plugin " + plugin.str(),
        "no rule grants it to this user; add it to plugins in mountd.toml"));
  }
  return *std::move(status);
}

Result<std::vector<csi::PluginStatus>> Service::ListPlugins(
    const CallContext& call) {
  std::vector<csi::PluginStatus> all = parts_.plugins.List();
  std::erase_if(all, [&](const csi::PluginStatus& status) {
    return !SeesPlugin(call.caller, status.record);
  });
  return all;
}

// ---- The node ----

Result<std::vector<OwedRecord>> Service::ListOwed(const CallContext& call) {
  MOUNTD_ASSIGN(std::vector<OwedRecord> owed, parts_.state.ListOwed());
  const auto is_others = [&](const OwedRecord& one) {
    return one.uid != call.caller.uid;
  };
  if (std::any_of(owed.begin(), owed.end(), is_others) &&
      !PolicyFor(call).MayAdminister(call.caller)) {
    std::erase_if(owed, is_others);
  }
  return owed;
}

// Asks an executor once, because the kernel's features do not change, and
// because GetCapabilities must not wait while all executors are busy.
Result<exec::HelloReply> Service::Hello() {
  const std::lock_guard lock(hello_mutex_);
  if (!hello_) {
    MOUNTD_ASSIGN(hello_, parts_.executor.Hello());
  }
  return *hello_;
}

std::string Service::MountNamespace() const {
  return parts_.config.Get()->mounts.own_namespace ? paths::kNamespace : "";
}

Result<Capabilities> Service::GetCapabilities(const CallContext& call) {
  MOUNTD_ASSIGN(const exec::HelloReply hello, Hello());
  Capabilities capabilities;
  capabilities.stuck_executors = parts_.executor.stuck();
  capabilities.stores_set_aside = parts_.stores_set_aside;
  capabilities.mount_namespace = MountNamespace();
  capabilities.executor_capabilities = hello.effective_capabilities;
  capabilities.Set(
      "unique-mount-ids", hello.has_unique_mount_ids != 0,
      "the kernel is older than 6.8, or a filter blocks statmount(2), so "
      "mountd compares mount ids that the kernel can reuse");
  capabilities.Set(
      "mount-beneath", hello.has_mount_beneath != 0,
      "the kernel is older than 6.5, so a live mount cannot be replaced");
  capabilities.mount_reserve = parts_.config.limits().mount_reserve;
  capabilities.owed_warning = parts_.config.timeouts().owed_warning;
  capabilities.administrator = PolicyNow().MayAdminister(call.caller);
  capabilities.rules = PolicyNow().MayPrepare(call.caller).has_value();
  AddNetworks(call.caller, &capabilities);
  return capabilities;
}

}  // namespace mountd
