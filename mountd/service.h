// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "mountd/caller.h"
#include "mountd/handed_out.h"
#include "mountd/holders.h"
#include "mountd/policy.h"
#include "mountd/reconciliation.h"
#include "mountd/service_parts.h"
#include "mountd/task_mounts.h"
#include "mountd/teardowns.h"
#include "mountd/trees.h"

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
  std::vector<std::string> inboxes;  // the tasks that have one
};

struct VolumeStatus {
  VolumeRecord record;
  std::vector<PublicationRecord> users;
};

struct Capabilities {
  std::map<std::string, bool> features;
  std::map<std::string, std::string> missing;  // feature, why
  std::vector<std::string> network_modes;
  std::map<std::string, Networks::Usage> networks;
  struct HostPorts {
    PortRange range;
    std::uint32_t free = 0;  // no allocation has them
  };
  std::vector<HostPorts> host_ports;
  std::map<std::string, std::string> cni_plugins;  // their releases
  std::uint64_t executor_capabilities = 0;
  std::uint32_t stuck_executors = 0;
  std::vector<std::string> stores_set_aside;
  // Where mountd's mount namespace is pinned; "" if its mounts are the host's.
  std::string mount_namespace;
  std::uint32_t mount_reserve = 0;  // limits
  std::chrono::milliseconds owed_warning{0};
  bool administrator = false;  // the caller is
  bool rules = false;          // some rule names the caller

  void Set(const std::string& feature, bool present, const std::string& why) {
    features[feature] = present;
    if (!present) {
      missing[feature] = why;
    }
  }
};

// The API's verbs, without D-Bus: who may (policy), then the domain. Every verb
// is idempotent, and either done or undone; what could not be undone is owed.
//
// Verbs block and run on workers; those that name an allocation on its strand,
// those that name a plugin on the plugin's. Errors are not logged here.
class Service {
 public:
  explicit Service(const ServiceParts& parts)
      : parts_(parts), teardowns_(parts) {}

  // Puts allocations' directories back. Called once, before the parts recover.
  Result<void> Recover();
  // Owes what was cut off and is not finished. Called once, after they have.
  Result<void> OweCutOff() { return teardowns_.OweCutOff(); }

  // ---- Allocations ----
  // The path of the mount namespace that host paths of mounts are in; "": the
  // host's.
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

  // Releases what the caller's scope has beyond what is wanted, except what has
  // live processes, or may have: not on any strand of theirs, as it waits for
  // those. One at a time for each user. FailedPrecondition for an older epoch.
  // Its entries, by their names, are what became of each; after an error what
  // was released is, and the same call again is right.
  Result<std::vector<ReconcileEntry>> Reconcile(const CallContext& call,
                                                const ReconcileSpec& spec,
                                                Strands& strands);

  // ---- Networks ----
  // `given`: an fd that is kept open until it returns, and its inode.
  Result<NetworkStatus> SetupNetwork(const CallContext& call,
                                     const Name& allocation,
                                     const NetworkSpec& spec,
                                     GivenNetns given = {});
  // "" is all of them.
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
  // After the plugin published it anew: tasks' mounts of it are swapped for
  // new ones. On the allocation's strand.
  Result<void> RepairMountsOf(const PublicationRecord& publication);
  Result<MountConfig> BindMount(const CallContext& call, BindMountSpec spec);
  // All of one allocation's, or none.
  Result<std::vector<MountConfig>> BindMounts(const CallContext& call,
                                              std::vector<BindMountSpec> specs);
  Result<Mounts::Replaced> ReplaceMount(const CallContext& call,
                                        BindMountSpec spec,
                                        OnTasks on_tasks = OnTasks::kRefuse);
  struct Repaired {
    Mounts::Replaced replaced;
    bool reaches_task = false;
    std::string reason;  // why it does not
  };
  Result<Repaired> RepairMount(const CallContext& call, const Name& allocation,
                               const Name& task, const Name& name);
  // A detached mount of the spec's source; its target does not matter.
  Result<UniqueFd> OpenTree(const CallContext& call, BindMountSpec spec);
  Result<void> Unmount(const CallContext& call, const Name& allocation,
                       const Name& task, const Name& name,
                       exec::UnmountMode mode = exec::UnmountMode::kPlain,
                       OnTasks on_tasks = OnTasks::kRefuse);
  struct Inbox {
    std::string host_path;
    std::shared_ptr<UniqueFd> tree;  // a clone of it, if one is wanted
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
  // FailedPrecondition for kCgroup if the allocation has none. Of processes of
  // other users outside its cgroup only administrators are told more than that
  // they exist.
  Result<HolderReport> ListHolders(const CallContext& call,
                                   const Name& allocation, const Name& task,
                                   const Name& name, exec::HolderScope scope);
  // Returns the mounts that OpenTree and PrepareInbox handed out of the
  // allocation and that a process has, also after the release. The answer hides
  // other users' processes as that of ListHolders does.
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

  // What every user made: PermissionDenied to who is no administrator.
  Result<void> SeesAll(const CallContext& call) const {
    return PolicyFor(call).MustAdminister(call.caller, "see", "all users");
  }
  // What `uid` made.
  bool Sees(const Caller& caller, std::uint32_t uid) const;
  bool SeesPlugin(const Caller& caller, const PluginRecord& plugin) const;
  bool SeesNetwork(const Caller& caller, const std::string& network) const;

  // ---- The node ----
  // Puts the configuration's file in force, all of it or, on an error, nothing.
  // The sections for which mountd starts again right after: then none of it
  // before. For root and administrators.
  Result<std::vector<std::string>> Reload(const CallContext& call);
  Result<std::vector<OwedRecord>> ListOwed(const CallContext& call);
  // Tries one owed tear-down again, as its owner would, if it still is owed.
  Result<void> RetryOwed(const OwedRecord& owed) {
    return teardowns_.Retry(owed);
  }
  // Whether there is anything of anybody's that it would have to look after.
  Result<bool> OwnsSomething();
  // These answer at once.
  std::map<std::string, Networks::Usage> GetAddressUsage() const {
    return parts_.networks.GetUsage();
  }
  // Of all that any rule grants, each once.
  std::uint32_t CountFreeHostPorts() const;
  std::uint32_t CountStuckExecutors() const { return parts_.executor.stuck(); }
  // GetCapabilities then waits for plugins.
  bool HasCni() const { return parts_.config.cni().enabled(); }
  // Ports: of the caller's rules.
  Result<Capabilities> GetCapabilities(const CallContext& call);

 private:
  // For a call's own decisions, which are written down, and for what only
  // looks.
  Policy PolicyFor(const CallContext& call) const {
    return Policy(parts_.config.Get(), call.decisions);
  }
  Policy PolicyNow() const { return Policy(parts_.config.Get()); }
  void AddNetworks(const Caller& caller, Capabilities* capabilities);
  void AddCniNetworks(const Caller& caller, Capabilities* capabilities);
  // The record, if the caller may use it; NotFound, PermissionDenied.
  Result<AllocationRecord> Find(const CallContext& call,
                                const std::string& allocation);
  // As Find, and FailedPrecondition while it is being released.
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
  // Takes out what the caller may not know of other users' processes.
  void HideOthers(const CallContext& call, HolderReport* report) const;
  Result<void> CheckRoom(const BindMountSpec& spec);
  std::optional<HolderReport> HoldersBefore(
      const AllocationRecord& owner, const std::optional<MountRecord>& old);
  Result<void> AuthoriseTarget(const CallContext& call,
                               const AllocationRecord& owner,
                               BindMountSpec& spec);
  Result<void> Authorise(const CallContext& call, const AllocationRecord& owner,
                         BindMountSpec& spec);
  Result<UniqueFd> HandOut(
      HandedOutRecord record,
      const std::function<Result<exec::Executor::HandedOut>()>& open);
  Result<void> Forgive(const BindMountSpec& spec);
  Result<void> CheckUnmountMode(const CallContext& call,
                                const MountRecord& mount,
                                exec::UnmountMode mode);
  // Fills in what the plan needs.
  Result<void> CheckVolumeSource(BindMountSpec& spec);
  Result<void> CheckIds(const CallContext& call,
                        const BindMountSpec& spec) const;
  static Result<void> CompleteTmpfs(const AllocationRecord& owner,
                                    BindMountSpec& spec);
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
