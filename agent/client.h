// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/client_options.h"
#include "agent/types.h"
#include "agent/types_controller.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// The client library of mountd. An agent links it and so needs no root rights.
// It has one typed method for each method of org.mountd1.Manager.
//
//   auto client = mountd::agent::Client::Connect();
//   if (!client) return Fail(client.error().Message());
//   auto network = client->SetupNetwork("web", spec);
namespace mountd::agent {

// Owns one connection to mountd. Makes no thread; every method blocks until its
// answer. Used by one thread at a time; any number of Clients may exist.
//
// Errors:
// - The daemon's error as the Code of the same name: `detail` is the daemon's
//   message, `op` the method, and `object` the method's object.
// - Unavailable if the daemon cannot be reached or does not answer in time, or
//   as the daemon's answer. Error::away tells three cases apart:
//   - kDaemon: nobody listens, or nobody answers. Look at the node.
//   - kRestarting: the connection ended during the call, or mountd-exec or
//     mountd-csi did. The same call soon succeeds. If mountd stays away, a
//     later call says kDaemon.
//   - kPlugin: mountd answers, and the CSI or CNI plugin does not. Look at the
//     plugin; calls about other plugins succeed.
// - NotSupported also for a method or an option that an older mountd does not
//   have; `detail` then says that mountd is older than its client.
// - Internal if an answer does not follow the contract.
//
// All methods are idempotent, so after any error the same call again is right.
class Client {
 public:
  // Unavailable if no mountd answers within options.connect_timeout.
  static Result<Client> Connect(ClientOptions options = {});

  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  // Gives the later calls these names.
  void SetNames(CallNames names);

  Result<std::string> Version();

  // ---- Allocations ----------------------------------------------------------

  // Makes the allocation. Returns its directory's path on the host.
  Result<std::string> PrepareAllocation(std::string_view allocation,
                                        const AllocationOptions& options = {});
  Result<AllocationStatus> GetAllocation(std::string_view allocation);
  Result<std::vector<AllocationEntry>> ListAllocations();

  // Undoes the whole allocation after its tasks have ended: mounts, volumes,
  // network, directory, record. Busy, with nothing changed, if the allocation
  // is not as `only_if` says.
  Result<Receipt> ReleaseAllocation(std::string_view allocation,
                                    OnTasks on_tasks = OnTasks::kRefuse,
                                    OnlyIf only_if = OnlyIf::kAny);
  Result<Receipt> GetReceipt(std::string_view allocation);

  // Releases allocations of the scope that are not wanted, except those that
  // have live processes. FailedPrecondition if the scope has had a newer epoch.
  Result<std::vector<ReconciledAllocation>> Reconcile(
      const Reconciliation& reconciliation);

  // ---- Leases ---------------------------------------------------------------

  // Binds the lease to an allocation or a scope. After a lapse GetFence has the
  // fence's receipt.
  Result<Lease> AcquireLease(std::string_view lease, const LeaseSpec& spec);
  Result<Lease> RenewLease(std::string_view lease);
  Result<void> ReleaseLease(std::string_view lease,
                            std::optional<std::uint32_t> uid = {});
  Result<std::vector<Lease>> ListLeases();
  Result<Fence> GetFence(std::string_view allocation);

  // ---- Networks -------------------------------------------------------------

  Result<NetworkStatus> SetupNetwork(std::string_view allocation,
                                     const NetworkSpec& spec);
  // Returns the network of the interface; without an interface the only
  // network.
  Result<NetworkStatus> GetNetwork(std::string_view allocation,
                                   std::string_view interface = {});
  // Returns an fd of the allocation's network namespace, which lives until its
  // last fd is closed; ListHandedOut lists the processes that have one.
  Result<UniqueFd> OpenNamespace(std::string_view allocation,
                                 std::string_view interface = {});
  // Replaces all ports of a network in mode "bridge" by these, while its tasks
  // run.
  Result<NetworkStatus> UpdatePorts(std::string_view allocation,
                                    const std::vector<Port>& ports,
                                    std::string_view interface = {});
  Result<void> TeardownNetwork(std::string_view allocation,
                               std::string_view interface = {});

  // ---- Volumes and mounts ---------------------------------------------------

  // InvalidArgument, before anything is sent, if a secret holds a NUL.
  Result<PublishedVolume> PublishVolume(std::string_view allocation,
                                        const VolumeSpec& spec);
  Result<void> UnpublishVolume(std::string_view allocation,
                               std::string_view alias,
                               OnTasks on_tasks = OnTasks::kRefuse);
  // Returns the volume's size in bytes, 0 if the plugin does not say.
  Result<std::int64_t> ExpandVolume(std::string_view allocation,
                                    std::string_view alias,
                                    const VolumeExpansion& expansion);
  Result<VolumeStats> GetVolumeStats(std::string_view allocation,
                                     std::string_view alias);
  Result<MountConfig> BindMount(std::string_view allocation,
                                const BindMountSpec& spec);
  // Makes all of the mounts or none.
  Result<std::vector<MountConfig>> BindMounts(
      std::string_view allocation, const std::vector<BindMountSpec>& specs);
  Result<ReplacedMount> ReplaceMount(std::string_view allocation,
                                     const BindMountSpec& spec,
                                     OnTasks on_tasks = OnTasks::kRefuse);
  Result<RepairedMount> RepairMount(std::string_view allocation,
                                    std::string_view task,
                                    std::string_view name);
  // Returns a detached mount with locked flags (mount_namespaces(7)), which its
  // holder cannot clear; of `spec` only source and propagation count. No
  // release takes the mount from a process that has it; ListHandedOut lists
  // those processes.
  Result<UniqueFd> OpenTree(std::string_view allocation,
                            const BindMountSpec& spec);
  Result<void> Unmount(std::string_view allocation, std::string_view task,
                       std::string_view name,
                       UnmountMode mode = UnmountMode::kPlain,
                       OnTasks on_tasks = OnTasks::kRefuse);
  Result<InboxConfig> PrepareInbox(std::string_view allocation,
                                   std::string_view task);
  // Returns the inbox as a detached mount, for a runtime that attaches it
  // before anything is mounted in it. No release takes the mount from a process
  // that has it, as for OpenTree.
  Result<UniqueFd> OpenInbox(std::string_view allocation,
                             std::string_view task);
  Result<void> RemoveInbox(std::string_view allocation, std::string_view task);
  Result<std::vector<StagedVolume>> ListVolumes();

  // ---- Trees of files -------------------------------------------------------

  // RemoveTree removes all that is in a directory. ChownTree gives all of it to
  // another owner. The caller must own the directory, and the directory must be
  // beneath the caller's alloc_roots. `directory` is any fd of it; the caller
  // keeps the fd and closes it.
  Result<TreeResult> RemoveTree(int directory);
  Result<TreeResult> ChownTree(int directory, std::uint32_t uid,
                               std::uint32_t gid);

  // ---- Running tasks --------------------------------------------------------

  // Returns the processes that use the mount: those in the allocation's cgroup,
  // or with `node` those of the whole node.
  Result<Holders> ListHolders(std::string_view allocation,
                              std::string_view task, std::string_view name,
                              bool node = false);
  // Returns the mounts of OpenTree and OpenInbox, and the namespaces of
  // OpenNamespace, that mountd has handed out of the allocation and that a
  // process still has, even after the release.
  Result<HandedOutList> ListHandedOut(std::string_view allocation);
  // Returns whether the mounts of the task are as mountd made them. `pidfd` is
  // of any process of the task.
  Result<TaskReport> VerifyTask(std::string_view allocation,
                                std::string_view task, int pidfd);

  // ---- Plugins --------------------------------------------------------------

  Result<PluginRegistration> RegisterPlugin(const PluginSpec& spec);
  Result<void> UnregisterPlugin(std::string_view plugin,
                                const PluginSelection& which = {});
  Result<PluginStatus> GetPlugin(std::string_view plugin);
  Result<std::vector<PluginStatus>> ListPlugins();

  // ---- Plugins' controllers -------------------------------------------------

  // These calls are for agents whose server decides about volumes elsewhere; a
  // rule has to grant them. ControllerPublishVolume returns the publish_context
  // for PublishVolume on that node.
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
  // Returns csi.v1.<rpc>Response as protobuf.
  Result<std::string> CallController(const ControllerCall& call);

  // ---- Grants ---------------------------------------------------------------

  // Each method lists what rules grant the caller, also if the caller is an
  // administrator. With `uid`, lists what rules grant that user; with
  // ClientOptions::all_users, what the rules of all users grant together.
  // PermissionDenied for others' grants unless the caller is an administrator.
  Result<std::vector<HostVolumeGrant>> ListHostVolumes(
      std::optional<std::uint32_t> uid = {});
  Result<std::vector<FilesystemGrant>> ListFilesystems(
      std::optional<std::uint32_t> uid = {});
  Result<std::vector<NetworkGrant>> ListNetworks(
      std::optional<std::uint32_t> uid = {});

  // ---- The node -------------------------------------------------------------

  Result<std::vector<OwedTeardown>> ListOwed();
  Result<OwedSummary> Owed();
  // Returns how many host ports are free: a rule grants them to some user, and
  // no allocation has them.
  Result<std::uint32_t> FreeHostPorts();
  // Retries the pending tear-downs now. Returns how many are left.
  Result<std::uint32_t> RetryOwed();
  // Lists the caller's operations; those of all users for an administrator.
  Result<std::vector<OperationStatus>> ListOperations();
  Result<void> Cancel(std::string_view operation);
  Result<Capabilities> GetCapabilities();
  Result<std::vector<MethodStatistics>> GetStatistics();
  // Returns how many connections mountd has ended or refused since its start,
  // by reason (the property DroppedPeers).
  Result<std::map<std::string, std::uint64_t>> DroppedPeers();
  // Makes mountd read its configuration again. Returns the sections for which
  // mountd has to start again.
  Result<std::vector<std::string>> Reload();

 private:
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace mountd::agent
