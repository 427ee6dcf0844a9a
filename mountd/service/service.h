// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "mountd/base/caller.h"
#include "mountd/base/current_user.h"
#include "mountd/executors/holder_report.h"
#include "mountd/policy/policy.h"
#include "mountd/service/handed_out.h"
#include "mountd/service/reconciliation.h"
#include "mountd/service/service_parts.h"
#include "mountd/service/task_mounts.h"
#include "mountd/service/teardowns.h"
#include "mountd/service/trees.h"

namespace mountd {

struct AllocationStatus {
  AllocationRecord record;
  std::string host_path;
  std::vector<NetworkStatus> networks;  // in the order of their interfaces
  struct Volume {
    PublicationRecord record;
    std::string plugin;
    std::string volume_id;
    std::string host_path;
  };
  std::vector<Volume> volumes;
  std::vector<MountConfig> mounts;
  std::vector<std::string> inboxes;  // tasks that have one
};

struct VolumeStatus {
  VolumeRecord record;
  std::vector<PublicationRecord> users;
};

struct Capabilities {
  std::map<std::string, bool> features;
  std::map<std::string, std::string> missing;  // feature, reason
  std::vector<std::string> network_modes;
  std::map<std::string, Networks::Usage> networks;
  struct HostPorts {
    PortRange range;
    std::uint32_t free = 0;  // ports that no allocation has
  };
  std::vector<HostPorts> host_ports;
  std::map<std::string, std::string> cni_plugins;  // releases, by type
  std::uint64_t executor_capabilities = 0;
  std::uint32_t stuck_executors = 0;
  std::vector<std::string> stores_set_aside;
  // The path where mountd's mount namespace is pinned; "" if the tree is in the
  // host's.
  std::string mount_namespace;
  std::uint32_t mount_reserve = 0;  // limits
  std::chrono::milliseconds owed_warning{0};
  bool administrator = false;  // true if the caller is one
  bool rules = false;          // true if some rule names the caller

  void Set(const std::string& feature, bool present, const std::string& why) {
    features[feature] = present;
    if (!present) {
      missing[feature] = why;
    }
  }
};

// The API's verbs without D-Bus. Each verb asks the policy and then calls the
// domain. Each verb is idempotent and is either done or undone; an undo that
// fails becomes pending.
//
// Verbs block and run on workers. A verb that names an allocation runs on the
// allocation's strand, one that names a plugin on the plugin's. Verbs do not
// log errors.
class Service {
 public:
  explicit Service(const ServiceParts& parts)
      : parts_(parts), teardowns_(parts) {}

  // Makes allocations' directories again. Called once, before the parts
  // recover.
  Result<void> Recover();
  // Adds pending tear-downs for unfinished work of an earlier mountd. Called
  // once, after the parts have recovered.
  Result<void> OweCutOff() { return teardowns_.OweCutOff(); }

  // ---- Allocations ----
  // Returns the path of the mount namespace that holds the mounts' host paths;
  // "" for the host's.
  std::string MountNamespace() const;
  Result<std::string> PrepareAllocation(const CallContext& call,
                                        const Name& allocation,
                                        const std::string& scope,
                                        std::uint64_t cgroup = 0);
  Result<ReceiptRecord> ReleaseAllocation(const CallContext& call,
                                          const Name& allocation,
                                          OnTasks on_tasks = OnTasks::kRefuse);
  Result<ReceiptRecord> GetReceipt(const CallContext& call,
                                   const Name& allocation);
  Result<AllocationStatus> GetAllocation(const CallContext& call,
                                         const Name& allocation);
  Result<std::vector<AllocationRecord>> ListAllocations(
      const CallContext& call);

  // Releases the allocations of the caller's scope that are not wanted, except
  // those that have, or may have, live processes. Returns one entry for each
  // allocation, in the order of their names. Not on any allocation's strand,
  // because it waits for those. One at a time for each user. FailedPrecondition
  // for an older epoch. After an error the released allocations stay released,
  // and the caller repeats the call.
  Result<std::vector<ReconcileEntry>> Reconcile(const CallContext& call,
                                                const ReconcileSpec& spec,
                                                Strands& strands);

  // ---- Networks ----
  // `given` holds an fd, which stays open until the call returns, and its
  // inode.
  Result<NetworkStatus> SetupNetwork(const CallContext& call,
                                     const Name& allocation,
                                     const NetworkRequest& spec,
                                     GivenNetns given = {});
  // Removes one network; "" removes all.
  Result<void> TeardownNetwork(const CallContext& call, const Name& allocation,
                               const std::string& interface = "");

  // ---- Volumes and bind mounts ----
  Result<csi::PublishedVolume> PublishVolume(const CallContext& call,
                                             csi::PublishSpec spec,
                                             const UniqueFd& secrets);
  Result<void> UnpublishVolume(const CallContext& call, const Name& allocation,
                               const Name& alias,
                               OnTasks on_tasks = OnTasks::kRefuse);
  Result<std::vector<VolumeStatus>> ListVolumes(const CallContext& call);
  Result<std::int64_t> ExpandVolume(const CallContext& call,
                                    const csi::Volumes::ExpandSpec& spec,
                                    const UniqueFd& secrets);
  Result<csi::VolumeStats> GetVolumeStats(const CallContext& call,
                                          const Name& allocation,
                                          const Name& alias);
  // Swaps tasks' mounts of the volume after the plugin has published it again.
  // Runs on the allocation's strand.
  Result<void> RepairMountsOf(const PublicationRecord& publication);
  Result<MountConfig> BindMount(const CallContext& call, BindMountRequest spec);
  // Mounts all specs, which are of one allocation, or none.
  Result<std::vector<MountConfig>> BindMounts(
      const CallContext& call, std::vector<BindMountRequest> specs);
  Result<Mounts::Replaced> ReplaceMount(const CallContext& call,
                                        BindMountRequest spec,
                                        OnTasks on_tasks = OnTasks::kRefuse);
  struct Repaired {
    Mounts::Replaced replaced;
    bool reaches_task = false;
    std::string reason;  // the reason if it does not
  };
  Result<Repaired> RepairMount(const CallContext& call, const Name& allocation,
                               const Name& task, const Name& name);
  // Returns a detached mount of the spec's source. The spec's target does not
  // matter.
  Result<UniqueFd> OpenTree(const CallContext& call, BindMountRequest spec);
  Result<void> Unmount(const CallContext& call, const Name& allocation,
                       const Name& task, const Name& name,
                       exec::UnmountMode mode = exec::UnmountMode::kPlain,
                       OnTasks on_tasks = OnTasks::kRefuse);
  struct Inbox {
    std::string host_path;
    std::shared_ptr<UniqueFd> tree;  // a clone of it, if the caller wants one
  };
  Result<Inbox> PrepareInbox(const CallContext& call, const InboxRecord& record,
                             bool open);
  Result<void> RemoveInbox(const CallContext& call, const InboxRecord& inbox);

  // ---- Trees of files ----
  Result<TreeResult> RemoveTree(const CallContext& call,
                                const UniqueFd& directory);
  Result<TreeResult> ChownTree(const CallContext& call,
                               const UniqueFd& directory, std::uint32_t uid,
                               std::uint32_t gid);

  // ---- Tasks ----
  // FailedPrecondition for kCgroup if the allocation has none. Only
  // administrators see details of other users' processes outside the
  // allocation's cgroup.
  Result<HolderReport> ListHolders(const CallContext& call,
                                   const Name& allocation, const Name& task,
                                   const Name& name, exec::HolderScope scope);
  // Returns the allocation's mounts that OpenTree and PrepareInbox handed out
  // and that a process still has, also after the release. Hides other users'
  // processes as ListHolders does.
  Result<HandedOutReport> ListHandedOut(const CallContext& call,
                                        const Name& allocation);
  Result<TaskReport> VerifyTask(const CallContext& call, const Name& allocation,
                                const Name& task, const UniqueFd& pidfd);

  // ---- Plugins ----
  Result<csi::PluginRegistration> RegisterPlugin(const CallContext& call,
                                                 PluginRecord record);
  Result<void> UnregisterPlugin(const CallContext& call, const Name& plugin,
                                const csi::PluginSelection& which = {});
  Result<csi::PluginStatus> GetPlugin(const CallContext& call,
                                      const Name& plugin);
  Result<std::vector<csi::PluginStatus>> ListPlugins(const CallContext& call);

  // ---- Plugins' controllers ----
  Result<StringMap> ControllerPublish(
      const CallContext& call, const std::string& plugin,
      const csi::ControllerPublishRequest& request, const UniqueFd& secrets);
  Result<void> ControllerUnpublish(
      const CallContext& call, const std::string& plugin,
      const csi::ControllerUnpublishRequest& request, const UniqueFd& secrets);
  Result<csi::Validation> ValidateVolume(const CallContext& call,
                                         const std::string& plugin,
                                         const csi::ValidateRequest& request,
                                         const UniqueFd& secrets);
  Result<csi::ControllerVolume> CreateVolume(
      const CallContext& call, const std::string& plugin,
      const csi::CreateVolumeRequest& request, const UniqueFd& secrets);
  Result<void> DeleteVolume(const CallContext& call, const std::string& plugin,
                            const csi::DeleteVolumeRequest& request,
                            const UniqueFd& secrets);
  Result<csi::ControllerExpansion> ControllerExpand(
      const CallContext& call, const std::string& plugin,
      const csi::ControllerExpandRequest& request, const UniqueFd& secrets);
  Result<csi::VolumePage> ListPluginVolumes(
      const CallContext& call, const std::string& plugin,
      const csi::ListVolumesRequest& request, const UniqueFd& secrets);
  Result<csi::Capacity> GetCapacity(const CallContext& call,
                                    const std::string& plugin,
                                    const csi::GetCapacityRequest& request,
                                    const UniqueFd& secrets);
  Result<std::string> CallController(const CallContext& call,
                                     const std::string& plugin,
                                     const std::string& rpc,
                                     const std::string& request,
                                     const UniqueFd& secrets);

  // Ok if the caller may see all users' objects. PermissionDenied unless it is
  // an administrator.
  Result<void> SeesAll(const CallContext& call) const {
    return PolicyFor(call).MustAdminister(call.caller, "see", "all users");
  }
  // Returns whether the caller may see objects of `uid`.
  bool Sees(const Caller& caller, std::uint32_t uid) const;
  bool SeesPlugin(const Caller& caller, const PluginRecord& plugin) const;
  bool SeesNetwork(const Caller& caller, const std::string& network) const;

  // ---- The node ----
  // Puts the configuration's file in force: all of it, or nothing on an error.
  // Returns the sections that take effect only when mountd starts again, which
  // it does right after. For root and administrators.
  Result<std::vector<std::string>> Reload(const CallContext& call);
  Result<std::vector<OwedRecord>> ListOwed(const CallContext& call);
  // Retries one pending tear-down with its owner's rights, if it is still
  // pending.
  Result<void> RetryOwed(const OwedRecord& owed) {
    const CurrentUser user(owed.uid);
    return teardowns_.Retry(owed);
  }
  // Returns whether there is any object of any user to look after.
  Result<bool> OwnsSomething();
  // These answer at once.
  std::map<std::string, Networks::Usage> GetAddressUsage() const {
    return parts_.networks.GetUsage();
  }
  // Counts the free ports of all rules, each port once.
  std::uint32_t CountFreeHostPorts() const;
  std::uint32_t CountStuckExecutors() const { return parts_.executor.stuck(); }
  // If true, GetCapabilities waits for plugins.
  bool HasCni() const { return parts_.config.cni().enabled(); }
  // Lists the host ports of the caller's rules.
  Result<Capabilities> GetCapabilities(const CallContext& call);

 private:
  // PolicyFor records its decisions for the call's log line. PolicyNow is for
  // reads.
  Policy PolicyFor(const CallContext& call) const {
    return Policy(parts_.config.Get(), call.decisions);
  }
  Policy PolicyNow() const { return Policy(parts_.config.Get()); }
  void AddNetworks(const Caller& caller, Capabilities* capabilities);
  void AddCniNetworks(const Caller& caller, Capabilities* capabilities);
  // Returns the record if the caller may use it. NotFound, PermissionDenied.
  Result<AllocationRecord> Find(const CallContext& call,
                                const std::string& allocation);
  // As Find. FailedPrecondition during a release.
  Result<AllocationRecord> FindPrepared(const CallContext& call,
                                        const std::string& allocation);
  Result<bool> FinishBareRelease(const CallContext& call,
                                 const AllocationRecord& record);
  struct Sweeping {
    const CallContext& call;
    const ReconcileSpec& spec;
    const PreparedMeanwhile::Watch& prepared;
  };
  Result<void> EnterEpoch(const CallContext& call, const ReconcileSpec& spec);
  Result<void> SweepAll(const Sweeping& sweeping, Strands& strands,
                        const std::vector<std::string>& unwanted,
                        std::vector<ReconcileEntry>* entries);
  Result<ReconcileEntry> Sweep(const Sweeping& sweeping,
                               const std::string& allocation);
  bool Lives(const CallContext& call, const AllocationRecord& record,
             ReconcileEntry* entry);
  Result<ReconcileEntry> JudgeWanted(const AllocationRecord& record);
  Result<ReconcileEntry> JudgeMissing(const CallContext& call,
                                      const std::string& name);
  Result<void> AddCopies(const AllocationRecord& record,
                         const MountRecord& mount, exec::HolderScope scope,
                         HolderReport* report);
  // Removes details of other users' processes that the caller may not see.
  void HideOthers(const CallContext& call, HolderReport* report) const;
  Result<void> CheckRoom(const BindMountRequest& spec);
  std::optional<HolderReport> HoldersBefore(
      const AllocationRecord& owner, const std::optional<MountRecord>& old);
  Result<void> AuthoriseTarget(const CallContext& call,
                               const AllocationRecord& owner,
                               BindMountRequest& spec);
  Result<void> Authorise(const CallContext& call, const AllocationRecord& owner,
                         BindMountRequest& spec);
  Result<UniqueFd> HandOut(
      HandedOutRecord record,
      const std::function<Result<exec::Executor::HandedOut>()>& open);
  Result<void> Forgive(const BindMountRequest& spec);
  Result<void> CheckUnmountMode(const CallContext& call,
                                const MountRecord& mount,
                                exec::UnmountMode mode);
  // Checks the published volume and fills in the plan's fields for it.
  Result<void> CheckVolumeSource(BindMountRequest& spec);
  Result<void> CheckIds(const CallContext& call,
                        const BindMountRequest& spec) const;
  static Result<void> CompleteTmpfs(const AllocationRecord& owner,
                                    BindMountRequest& spec);
  Result<void> CheckCgroup(const CallContext& call, std::uint64_t cgroup);
  Result<void> RecordFound();
  Result<std::uint32_t> OwnerOf(const exec::FoundTarget& found);
  Result<void> CheckNotDeclared(const char* op,
                                const std::string& plugin) const;
  Result<void> CheckPluginLimit(std::uint32_t uid);

  Result<exec::HelloReply> Hello();

  const ServiceParts parts_;
  Teardowns teardowns_;
  PreparedMeanwhile prepared_;
  std::mutex hello_mutex_;
  std::optional<exec::HelloReply> hello_;  // hello_mutex_
};

}  // namespace mountd
