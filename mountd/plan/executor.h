// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"
#include "mountd/plan/message.h"

namespace mountd::exec {

// Everything that the unprivileged core can ask of the privileged side. One
// method is one plan. Each plan is idempotent, all or nothing, and answered
// within its deadline. DeadlineExceeded if it is not: the outcome is then
// unknown, and mountd must ask again. Unavailable if no executor could be
// reached or the executor died during the plan; the outcome is unknown too.
//
// Implementations: ExecutorPool (over sockets, executors/executor_pool.h) and,
// in tests, ScriptedExecutor. Methods block. Workers call them, several at
// once; the event loop never does.
class Executor {
 public:
  virtual ~Executor() = default;

  virtual Result<HelloReply> Hello() = 0;
  // Returns how many abandoned executors hang in the kernel.
  virtual std::uint32_t stuck() const { return 0; }

  // Makes the base if it is missing, checks it otherwise, and returns its
  // mount.
  virtual Result<MountState> PrepareBase() = 0;
  virtual Result<void> PrepareAllocation(const AllocationPlan& plan) = 0;
  // Removes the directory. First detaches mounts beneath it, because no record
  // of them is left by then. Busy while such a mount is used. Success if it is
  // gone already.
  virtual Result<void> RemoveAllocation(const AllocationPlan& plan) = 0;
  // AlreadyExists if another mount is at the target. `fd` is the caller's
  // directory or pidfd if the plan's target_kind takes one, else -1.
  virtual Result<MountState> Attach(const AttachPlan& plan, int fd) = 0;
  struct HandedOut {
    UniqueFd fd;
    HandedOutMount mount;
  };
  virtual Result<HandedOut> OpenTree(const OpenTreePlan& plan) = 0;
  virtual Result<void> Detach(const DetachPlan& plan) = 0;
  virtual Result<MountState> InspectTarget(const TargetPlan& plan) = 0;
  // RemoveInbox: Busy while a mount is in the inbox; success if there is no
  // inbox.
  virtual Result<void> PrepareInbox(const TaskPlan& plan) = 0;
  virtual Result<void> RemoveInbox(const TaskPlan& plan) = 0;
  // Returns a detached clone of the inbox and its mounts. The clone follows the
  // inbox once it is attached.
  virtual Result<HandedOut> OpenInbox(const TaskPlan& plan) = 0;
  // Unmounts the anchor. Busy while the anchor is used; success if it is gone
  // already. Also works for a source that is no longer declared.
  virtual Result<void> ReleaseAnchor(const AnchorPlan& plan) = 0;

  // Makes the plugin's directory a mount with a shared peer group of its own.
  virtual Result<MountState> PreparePlugin(const PluginPlan& plan) = 0;
  // Busy while a mount is left beneath the directory.
  virtual Result<void> RemovePlugin(const PluginPlan& plan) = 0;
  // Connects a stream socket to the instance's socket in p/<plugin>, without
  // following links. Unavailable while nobody listens; PermissionDenied if the
  // listener is in another cgroup.
  struct PluginConnection {
    UniqueFd socket;
    PluginReply peer;
  };
  virtual Result<PluginConnection> ConnectPlugin(
      const PluginSocketPlan& plan) = 0;
  // Returns only the socket's inode; 0 if there is none.
  virtual Result<PluginReply> InspectPluginSocket(
      const PluginSocketPlan& plan) = 0;
  // Removes the socket of an instance that is gone while others remain. Success
  // if there is no socket.
  virtual Result<void> RemovePluginSocket(const PluginSocketPlan& plan) = 0;
  // Starts a plugin that the executor's config declares as a unit of systemd.
  // Success if the unit exists already. NotSupported where systemd does not
  // run.
  virtual Result<void> StartPlugin(const PluginPlan& plan) = 0;
  // Stops the unit and does not wait for its end. Success if there is no unit.
  virtual Result<void> StopPlugin(const PluginPlan& plan) = 0;
  virtual Result<MountState> PrepareVolumeDir(const VolumeDirPlan& plan) = 0;
  virtual Result<MountState> InspectVolumeDir(const VolumeDirPlan& plan) = 0;
  // Removes the directory. Busy while it is a mount point or not empty; success
  // if it is gone already. With `detach` unmounts the mount at it and keeps the
  // directory's content.
  virtual Result<void> RemoveVolumeDir(const VolumeDirPlan& plan) = 0;

  // Makes the base ruleset, forwarding and /run/netns if they are missing. If
  // the flag is set, also restores rules that somebody has changed.
  virtual Result<void> PrepareNetworks(bool anew) = 0;
  // AlreadyExists if a host port is mapped already, or a socket of the host
  // listens on it. `netns` is the namespace of a plan whose origin is kGiven,
  // else -1. `keeper` is the pidfd of a plan with has_keeper, else -1.
  virtual Result<NetworkState> CreateNetwork(const NetworkPlan& plan, int netns,
                                             int keeper) = 0;
  // Checks ports that CreateNetwork does not map. AlreadyExists if a socket of
  // the host listens on one of the plan's ports. FailedPrecondition where the
  // kernel does not list its sockets.
  virtual Result<void> CheckHostPorts(const NetworkPlan& plan, int keeper) = 0;
  // Returns when the ports, the addresses' rules and the name are gone. The
  // link may still be ending; InspectNetwork says when it is gone.
  virtual Result<void> DeleteNetwork(const NetworkPlan& plan) = 0;
  virtual Result<NetworkState> InspectNetwork(const NetworkPlan& plan) = 0;
  // FailedPrecondition if the network's namespace is gone.
  virtual Result<NetworkState> RepairNetwork(const NetworkPlan& plan) = 0;
  // Returns an fd of the allocation's namespace. FailedPrecondition if the
  // namespace is gone.
  virtual Result<HandedOut> OpenNamespace(const NetworkPlan& plan) = 0;
  // Replaces the port maps, all or nothing. AlreadyExists as CreateNetwork.
  // FailedPrecondition if the namespace, the link or its own elements are not
  // as the plan says.
  virtual Result<NetworkState> UpdatePorts(const PortsPlan& plan) = 0;
  virtual Result<UniqueFd> WatchNetworks(NetworkWatchKind kind) = 0;
  // `content` is a memfd of at most kMaxNetworkFileBytes.
  virtual Result<void> WriteNetworkFile(const NetworkFilePlan& plan,
                                        int content) = 0;
  virtual Result<void> RemoveNetworkFiles(const NetworkFilePlan& plan) = 0;

  // `request` is a memfd. The returned memfd holds at most kMaxCniAnswerBytes,
  // which third parties' plugins wrote. Takes up to timeouts.cni. NotSupported
  // without [cni].
  virtual Result<UniqueFd> RunCni(const CniPlan& plan, int request) = 0;

  // NotFound if there is no such cgroup; PermissionDenied if no rule grants it.
  virtual Result<CgroupState> InspectCgroup(const CgroupPlan& plan) = 0;
  virtual Result<HoldersState> FindHolders(const HoldersPlan& plan) = 0;
  // PermissionDenied as for InspectCgroup. A removed cgroup has no processes.
  virtual Result<CopiesState> FindCopies(const CopiesPlan& plan) = 0;
  // NotFound and PermissionDenied as for InspectCgroup.
  virtual Result<HoldersState> FindProcesses(const ProcessesPlan& plan) = 0;
  // Returns the cgroup of the process of `pidfd`. FailedPrecondition if the
  // process has ended; PermissionDenied if no rule grants its cgroup.
  virtual Result<CgroupState> InspectTask(int pidfd) = 0;
  // FailedPrecondition if the process has ended or is in another cgroup.
  virtual Result<TaskState> VerifyTask(const VerifyTaskPlan& plan,
                                       int pidfd) = 0;

  // Stops the processes of a cgroup and returns once they have stopped. Busy if
  // they have not within the plan's budget. NotFound if the cgroup is gone, and
  // its processes with it. PermissionDenied if no rule grants that.
  // FailedPrecondition if the executor itself is in the cgroup.
  virtual Result<StopTasksState> StopTasks(const StopTasksPlan& plan) = 0;

  // Does a part of the work on the tree below `directory`, which is any fd of
  // it that a caller passed. The same plan continues with the rest (ChownTree:
  // with the position from the last answer). Busy if a mount lies in the tree.
  virtual Result<TreeReply> RemoveTree(const TreePlan& plan, int directory) = 0;
  virtual Result<TreeReply> ChownTree(const TreePlan& plan, int directory) = 0;

  // Both act on the mount namespace that holds the base.
  struct MountWatch {
    UniqueFd fd;
    WatchReply reply;
  };
  virtual Result<MountWatch> WatchMounts() = 0;
  struct MountList {
    UniqueFd ids;
    MountListReply reply;
  };
  virtual Result<MountList> ListMounts() = 0;
  // Lists the targets and networks that the kernel has, recorded or not
  // (mount_plans.h, network_plans.h).
  virtual Result<std::vector<FoundTarget>> ListTargets() = 0;
  virtual Result<std::vector<FoundNetwork>> ListNetworks() = 0;
  // Counts the mounts below the plugin's directory. NotFound if that directory
  // was not prepared.
  virtual Result<std::uint64_t> CountMounts(const PluginPlan& plan) = 0;
  // NotFound if the mount is gone.
  virtual Result<ProbeReply> ProbeMount(const ProbePlan& plan) = 0;
  virtual Result<ProbeReply> ProbeVolume(const VolumeProbePlan& plan) = 0;
};

}  // namespace mountd::exec
