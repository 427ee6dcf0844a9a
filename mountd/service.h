// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "csi-node/plugins.h"
#include "csi-node/volumes.h"
#include "mountd/caller.h"
#include "mountd/config.h"
#include "mountd/mounts.h"
#include "mountd/networks.h"
#include "mountd/policy.h"
#include "mountd/store/state_store.h"

namespace mountd {

// The parts the service is made of; owned by the daemon, outlive the service.
struct ServiceParts {
  const Config& config;
  exec::Executor& executor;
  store::StateStore& state;
  store::BootStore& boot;
  Mounts& mounts;
  Networks& networks;
  csi::Plugins& plugins;
  csi::Volumes& volumes;
};

struct AllocationStatus {
  AllocationRecord record;
  std::string host_path;
  std::optional<NetworkStatus> network;
  struct Volume {
    PublicationRecord record;
    std::string plugin;
    std::string volume_id;
    std::string host_path;
  };
  std::vector<Volume> volumes;
  std::vector<MountConfig> mounts;
};

struct VolumeStatus {
  VolumeRecord record;
  std::vector<PublicationRecord> users;
};

struct Capabilities {
  std::string kernel;
  std::map<std::string, bool> features;
  std::map<std::string, std::string> missing;  // feature, why
  std::map<std::string, Networks::Usage> networks;
  std::uint64_t executor_capabilities = 0;
  std::uint32_t stuck_executors = 0;
};

// "release", "unpublish", "teardown-network", "unmount".
std::string_view OwedKindName(OwedKind kind);

// The API's verbs, without D-Bus: who may (policy), then the domain. Every verb
// is idempotent, and either done or undone; what could not be undone is owed.
//
// Verbs block and run on workers; those that name an allocation on its strand,
// those that name a plugin on the plugin's. Errors are not logged here.
class Service {
 public:
  explicit Service(const ServiceParts& parts)
      : parts_(parts), policy_(parts.config) {}

  // Puts allocations' directories back, and owes what was being released or
  // unpublished. Called once, before the parts recover.
  Result<void> Recover();
  // Owes what the parts could not finish. Called once, after they recovered.
  Result<void> OweLeftovers();

  // ---- Allocations ----
  Result<std::string> PrepareAllocation(const CallContext& call,
                                        const Name& allocation,
                                        const std::string& scope);
  Result<ReceiptRecord> ReleaseAllocation(const CallContext& call,
                                          const Name& allocation);
  Result<ReceiptRecord> GetReceipt(const CallContext& call,
                                   const Name& allocation);
  Result<AllocationStatus> GetAllocation(const CallContext& call,
                                         const Name& allocation);
  Result<std::vector<AllocationRecord>> ListAllocations(
      const CallContext& call);

  // ---- Networks ----
  Result<NetworkStatus> SetupNetwork(const CallContext& call,
                                     const Name& allocation,
                                     const NetworkSpec& spec);
  Result<void> TeardownNetwork(const CallContext& call, const Name& allocation);

  // ---- Volumes and bind mounts ----
  Result<csi::PublishedVolume> PublishVolume(const CallContext& call,
                                             csi::PublishSpec spec,
                                             const UniqueFd& secrets);
  Result<void> UnpublishVolume(const CallContext& call, const Name& allocation,
                               const Name& alias);
  Result<std::vector<VolumeStatus>> ListVolumes(const CallContext& call);
  Result<MountConfig> BindMount(const CallContext& call, BindMountSpec spec);
  Result<void> Unmount(const CallContext& call, const Name& allocation,
                       const Name& task, const Name& name);

  // ---- Plugins ----
  Result<csi::PluginRegistration> RegisterPlugin(const CallContext& call,
                                                 PluginRecord record);
  Result<void> UnregisterPlugin(const CallContext& call, const Name& plugin);
  Result<csi::PluginStatus> GetPlugin(const CallContext& call,
                                      const Name& plugin);
  Result<std::vector<csi::PluginStatus>> ListPlugins(const CallContext& call);

  bool SeesPlugin(const Caller& caller, const PluginRecord& plugin) const;

  // ---- The node ----
  Result<std::vector<OwedRecord>> ListOwed(const CallContext& call);
  // Tries one owed tear-down again, as its owner would, if it still is owed.
  Result<void> RetryOwed(const OwedRecord& owed);
  Result<std::uint32_t> CountOwed();
  Result<Capabilities> GetCapabilities();

 private:
  // The record, if the caller may use it; NotFound, PermissionDenied.
  Result<AllocationRecord> Find(const CallContext& call,
                                const std::string& allocation);
  // As Find, and FailedPrecondition while it is being released.
  Result<AllocationRecord> FindPrepared(const CallContext& call,
                                        const std::string& allocation);
  Result<ReceiptRecord> Release(const AllocationRecord& record);
  Result<void> Undo(const AllocationRecord& record);
  Result<void> CheckUnused(const std::string& allocation,
                           const std::string& alias);
  // Each is owed if it fails, and no more once it succeeds.
  Result<void> OweUnlessDone(OwedKind kind, const std::string& object,
                             std::uint32_t uid, Result<void> outcome);
  Result<void> TeardownNetwork(const AllocationRecord& record);
  Result<void> Unmount(const AllocationRecord& record, const std::string& task,
                       const std::string& name);
  Result<void> Unpublish(const AllocationRecord& record,
                         const std::string& alias);
  Result<void> CheckVolumeSource(const CallContext& call, BindMountSpec& spec);
  Result<void> CheckPluginLimit(std::uint32_t uid);
  bool Sees(const Caller& caller, std::uint32_t uid) const;

  Result<exec::HelloReply> Hello();

  const ServiceParts parts_;
  const Policy policy_;
  std::mutex hello_mutex_;
  std::optional<exec::HelloReply> hello_;  // hello_mutex_
};

}  // namespace mountd
