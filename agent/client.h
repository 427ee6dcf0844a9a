// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/types.h"
#include "agent/types_controller.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// The client library of mountd: what an agent links instead of running as root.
// One typed method for each one of org.mountd1.Manager.
//
//   auto client = mountd::agent::Client::Connect();
//   if (!client) return Fail(client.error().Message());
//   auto network = client->SetupNetwork("web", spec);
namespace mountd::agent {

struct ClientOptions {
  // Where mountd is: "unix:path=/run/mountd/bus", or the path alone. "" is that
  // default. With `system_bus` the address is not used: org.mountd1 on the
  // system bus, which is slower and for operators.
  std::string address{};
  bool system_bus = false;
  // On the system bus: polkit may let somebody authenticate for what only an
  // administrator may. A call may then wait for that, for minutes.
  bool interactive = false;

  // What is listed, and tried again, is of all users: PermissionDenied to who
  // is no administrator. Without it an administrator sees it all, too, and
  // others see their own.
  bool all_users = false;

  // How long a connection may take, the daemon's start by its socket included.
  std::chrono::milliseconds connect_timeout{15'000};

  // How long the daemon may work on one call before it answers InProgress. 0:
  // as the daemon is configured (20 s, which is also the most).
  std::chrono::milliseconds patience{0};

  // After InProgress the client makes the same call again, which joins the work
  // under way, until `deadline` after the first; then InProgress is returned,
  // and its detail is the operation's id. With `join` off it is returned at
  // once.
  bool join = true;
  std::chrono::milliseconds deadline{300'000};

  // Called by each call, on its thread: with the method's name before it, and
  // with "" after it.
  std::function<void(std::string_view method)> on_call{};

  // A connection found broken is made again, and the call with it, once. The
  // daemon may have carried out the first try: that is right because every
  // method is idempotent.
  bool reconnect = true;
};

// One connection to mountd. Makes no thread; every method blocks for its
// answer. Used by one thread at a time; any number of Clients may exist.
//
// Errors: the daemon's own come as the Code of the same name, with the daemon's
// message as `detail`, the method as `op` and what it was for as `object`.
// Unavailable: the daemon could not be reached, or did not answer in time.
// Internal: it answered something that is not of the contract. All methods are
// idempotent, so after any error the same call again is right.
class Client {
 public:
  // Unavailable if nothing answers there within options.connect_timeout.
  static Result<Client> Connect(ClientOptions options = {});

  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  Result<std::string> Version();

  // ---- Allocations ----------------------------------------------------------

  // The path of the allocation's directory on the host.
  Result<std::string> PrepareAllocation(std::string_view allocation,
                                        const AllocationOptions& options = {});
  Result<AllocationStatus> GetAllocation(std::string_view allocation);
  Result<std::vector<AllocationEntry>> ListAllocations();

  // Postrun, whole: mounts, volumes, network, directory, record.
  Result<Receipt> ReleaseAllocation(std::string_view allocation,
                                    OnTasks on_tasks = OnTasks::kRefuse);
  Result<Receipt> GetReceipt(std::string_view allocation);

  // Releases what the scope has beyond what is wanted, except what has live
  // processes. FailedPrecondition for an epoch older than the scope has had.
  Result<std::vector<ReconciledAllocation>> Reconcile(
      const Reconciliation& reconciliation);

  // ---- Networks -------------------------------------------------------------

  Result<NetworkStatus> SetupNetwork(std::string_view allocation,
                                     const NetworkSpec& spec);
  Result<void> TeardownNetwork(std::string_view allocation,
                               std::string_view interface = {});

  // ---- Volumes and mounts ---------------------------------------------------

  // InvalidArgument, and nothing sent, if a secret holds a NUL.
  Result<PublishedVolume> PublishVolume(std::string_view allocation,
                                        const VolumeSpec& spec);
  Result<void> UnpublishVolume(std::string_view allocation,
                               std::string_view alias,
                               OnTasks on_tasks = OnTasks::kRefuse);
  // Answers its size in bytes, 0 if the plugin does not tell.
  Result<std::int64_t> ExpandVolume(std::string_view allocation,
                                    std::string_view alias,
                                    const VolumeExpansion& expansion);
  Result<VolumeStats> GetVolumeStats(std::string_view allocation,
                                     std::string_view alias);
  Result<MountConfig> BindMount(std::string_view allocation,
                                const BindMountSpec& spec);
  // All of them or none.
  Result<std::vector<MountConfig>> BindMounts(
      std::string_view allocation, const std::vector<BindMountSpec>& specs);
  Result<ReplacedMount> ReplaceMount(std::string_view allocation,
                                     const BindMountSpec& spec,
                                     OnTasks on_tasks = OnTasks::kRefuse);
  Result<RepairedMount> RepairMount(std::string_view allocation,
                                    std::string_view task,
                                    std::string_view name);
  // Of the spec its source and propagation; a detached mount. No release takes
  // it from a process that has it: ListHandedOut tells which those are.
  Result<UniqueFd> OpenTree(std::string_view allocation,
                            const BindMountSpec& spec);
  Result<void> Unmount(std::string_view allocation, std::string_view task,
                       std::string_view name,
                       UnmountMode mode = UnmountMode::kPlain,
                       OnTasks on_tasks = OnTasks::kRefuse);
  Result<InboxConfig> PrepareInbox(std::string_view allocation,
                                   std::string_view task);
  // The same, as a detached mount, for a runtime to attach before anything is
  // mounted in it; as of OpenTree.
  Result<UniqueFd> OpenInbox(std::string_view allocation,
                             std::string_view task);
  Result<void> RemoveInbox(std::string_view allocation, std::string_view task);
  Result<std::vector<StagedVolume>> ListVolumes();

  // ---- Trees of files -------------------------------------------------------

  // Of a directory of the caller's own beneath its alloc_roots; `directory` is
  // any fd of it, which stays the caller's.
  Result<TreeResult> RemoveTree(int directory);
  Result<TreeResult> ChownTree(int directory, std::uint32_t uid,
                               std::uint32_t gid);

  // ---- Running tasks --------------------------------------------------------

  // Who uses the mount, of the allocation's cgroup or of the whole node.
  Result<Holders> ListHolders(std::string_view allocation,
                              std::string_view task, std::string_view name,
                              bool node = false);
  // Returns the mounts that OpenTree and OpenInbox handed out of the allocation
  // and that a process has, also after the release.
  Result<HandedOutList> ListHandedOut(std::string_view allocation);
  // Whether the task that `pidfd` is of has its mounts as they were made.
  Result<TaskReport> VerifyTask(std::string_view allocation,
                                std::string_view task, int pidfd);

  // ---- Plugins --------------------------------------------------------------

  Result<PluginRegistration> RegisterPlugin(const PluginSpec& spec);
  Result<void> UnregisterPlugin(std::string_view plugin,
                                const PluginSelection& which = {});
  Result<PluginStatus> GetPlugin(std::string_view plugin);
  Result<std::vector<PluginStatus>> ListPlugins();

  // ---- Plugins' controllers -------------------------------------------------

  // For agents whose server decides about volumes elsewhere; a rule has to
  // grant them. Answers the publish_context for PublishVolume on that node.
  Result<std::map<std::string, std::string>> ControllerPublishVolume(
      const ControllerPublishSpec& spec);
  Result<void> ControllerUnpublishVolume(
      std::string_view plugin, std::string_view volume,
      std::string_view node_id,
      const std::map<std::string, std::string>& secrets = {});
  Result<VolumeValidation> ValidateVolume(const VolumeValidationSpec& spec);
  Result<PluginVolume> CreateVolume(const VolumeCreation& creation);
  Result<void> DeleteVolume(
      std::string_view plugin, std::string_view volume,
      const std::map<std::string, std::string>& secrets = {});
  Result<ControllerExpansion> ControllerExpandVolume(
      const ControllerExpansionSpec& spec);
  Result<PluginVolumePage> ListPluginVolumes(std::string_view plugin,
                                             const PageRequest& page = {});
  Result<PluginCapacity> GetCapacity(std::string_view plugin,
                                     const CapacityQuery& query = {});
  // Answers csi.v1.<rpc>Response as protobuf.
  Result<std::string> CallController(const ControllerCall& call);

  // ---- The node -------------------------------------------------------------

  Result<std::vector<OwedTeardown>> ListOwed();
  Result<OwedSummary> Owed();
  // Of all that any rule grants.
  Result<std::uint32_t> FreeHostPorts();
  // How many are left.
  Result<std::uint32_t> RetryOwed();
  // The caller's own; an administrator's are everybody's.
  Result<std::vector<OperationStatus>> ListOperations();
  Result<void> Cancel(std::string_view operation);
  Result<Capabilities> GetCapabilities();
  Result<std::vector<MethodStatistics>> GetStatistics();
  // Connections that mountd has ended or refused since its start, by reason
  // (the property DroppedPeers).
  Result<std::map<std::string, std::uint64_t>> DroppedPeers();
  // The sections of the configuration for which mountd starts again.
  Result<std::vector<std::string>> Reload();

 private:
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace mountd::agent
