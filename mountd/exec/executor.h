// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"
#include "mountd/exec/plan.h"

namespace mountd::exec {

// All that the unprivileged core can have done by the privileged side. One
// method is one plan; each is idempotent, all or nothing, and answered within
// the plan's deadline or with DeadlineExceeded (the outcome is then unknown and
// must be asked for again). Unavailable: no executor could be reached, or it
// died with the plan in hand; the outcome is unknown too.
//
// Implementations: ExecutorPool (over sockets, exec/executor_pool.h) and, in
// tests, ScriptedExecutor. Methods block; they are called from workers, never
// from the event loop, and may be called from several threads at once.
class Executor {
 public:
  virtual ~Executor() = default;

  virtual Result<HelloReply> Hello() = 0;
  // How many executors hang in the kernel, abandoned.
  virtual std::uint32_t stuck() const { return 0; }

  // The base: made if missing, checked if there. Answers its mount.
  virtual Result<MountState> PrepareBase() = 0;
  virtual Result<void> PrepareAllocation(const AllocationPlan& plan) = 0;
  // Detaches first what is mounted beneath it, which by then nobody has a
  // record of; Busy while such a mount is used. Gone already is success.
  virtual Result<void> RemoveAllocation(const AllocationPlan& plan) = 0;
  // AlreadyExists if another mount is at the target. `fd` is the directory the
  // caller passed, if the plan's target_kind takes one, else -1.
  virtual Result<MountState> Attach(const AttachPlan& plan, int fd) = 0;
  struct HandedOut {
    UniqueFd fd;
    HandedOutMount mount;
  };
  virtual Result<HandedOut> OpenTree(const OpenTreePlan& plan) = 0;
  virtual Result<void> Detach(const DetachPlan& plan) = 0;
  virtual Result<MountState> InspectTarget(const TargetPlan& plan) = 0;
  // Busy while a mount is in the inbox; none is success.
  virtual Result<void> PrepareInbox(const TaskPlan& plan) = 0;
  virtual Result<void> RemoveInbox(const TaskPlan& plan) = 0;
  // A clone of it, with what is in it, that follows it once it is attached.
  virtual Result<HandedOut> OpenInbox(const TaskPlan& plan) = 0;
  // Busy while the anchor is used; gone already is success. Also of a source
  // that is declared no longer.
  virtual Result<void> ReleaseAnchor(const AnchorPlan& plan) = 0;

  // The plugin's directory: a mount of its own, a shared peer group of its own.
  virtual Result<MountState> PreparePlugin(const PluginPlan& plan) = 0;
  // Busy while a mount is left beneath it.
  virtual Result<void> RemovePlugin(const PluginPlan& plan) = 0;
  // A connected stream socket to the instance's in p/<plugin>, opened without
  // following links. Unavailable while nobody listens; PermissionDenied if who
  // does is in another cgroup.
  struct PluginConnection {
    UniqueFd socket;
    PluginReply peer;
  };
  virtual Result<PluginConnection> ConnectPlugin(
      const PluginSocketPlan& plan) = 0;
  // The socket's inode alone; 0 if there is none.
  virtual Result<PluginReply> InspectPluginSocket(
      const PluginSocketPlan& plan) = 0;
  // Of an instance that is gone while others are left. None is success.
  virtual Result<void> RemovePluginSocket(const PluginSocketPlan& plan) = 0;
  // A plugin that the executor's config declares, as a unit of systemd; success
  // if it is there already. NotSupported where systemd does not run.
  virtual Result<void> StartPlugin(const PluginPlan& plan) = 0;
  // Does not wait for its end; none is success.
  virtual Result<void> StopPlugin(const PluginPlan& plan) = 0;
  virtual Result<MountState> PrepareVolumeDir(const VolumeDirPlan& plan) = 0;
  virtual Result<MountState> InspectVolumeDir(const VolumeDirPlan& plan) = 0;
  // Busy while it is a mount point or not empty; gone already is success. With
  // `detach` what is mounted at it goes, and what is in it stays.
  virtual Result<void> RemoveVolumeDir(const VolumeDirPlan& plan) = 0;

  // The base ruleset, forwarding, /run/netns. Made if missing.
  // With `anew` also the rules that somebody has changed.
  virtual Result<void> PrepareNetworks(bool anew) = 0;
  // AlreadyExists if a host port is mapped already, or a socket of the host
  // listens on it. `netns` is the namespace of a plan whose origin is kGiven,
  // else -1; `keeper` the pidfd of one that has_keeper, else -1.
  virtual Result<NetworkState> CreateNetwork(const NetworkPlan& plan, int netns,
                                             int keeper) = 0;
  // AlreadyExists if a socket of the host listens on one of the plan's ports:
  // of those that no CreateNetwork maps. FailedPrecondition where the kernel
  // does not tell.
  virtual Result<void> CheckHostPorts(const NetworkPlan& plan, int keeper) = 0;
  // Answers when ports, addresses' rules and the name are gone; the link may
  // still be dying (InspectNetwork says when it is gone).
  virtual Result<void> DeleteNetwork(const NetworkPlan& plan) = 0;
  virtual Result<NetworkState> InspectNetwork(const NetworkPlan& plan) = 0;
  // FailedPrecondition if its namespace is gone.
  virtual Result<NetworkState> RepairNetwork(const NetworkPlan& plan) = 0;
  virtual Result<UniqueFd> WatchNetworks(NetworkWatchKind kind) = 0;
  // `content` is a memfd of kMaxNetworkFileBytes at most.
  virtual Result<void> WriteNetworkFile(const NetworkFilePlan& plan,
                                        int content) = 0;
  virtual Result<void> RemoveNetworkFiles(const NetworkFilePlan& plan) = 0;

  // `request` is a memfd; the answer's holds kMaxCniAnswerBytes at most, and
  // what is in it came of third parties' plugins. Takes up to timeouts.cni.
  // NotSupported without [cni].
  virtual Result<UniqueFd> RunCni(const CniPlan& plan, int request) = 0;

  // NotFound if there is no such cgroup; PermissionDenied if no rule grants it.
  virtual Result<CgroupState> InspectCgroup(const CgroupPlan& plan) = 0;
  virtual Result<HoldersState> FindHolders(const HoldersPlan& plan) = 0;
  // PermissionDenied as InspectCgroup; a cgroup that is gone has no processes.
  virtual Result<CopiesState> FindCopies(const CopiesPlan& plan) = 0;
  // NotFound and PermissionDenied as InspectCgroup.
  virtual Result<HoldersState> FindProcesses(const ProcessesPlan& plan) = 0;
  // The cgroup of the process that `pidfd` is of. FailedPrecondition if it has
  // ended; PermissionDenied if no rule grants its cgroup.
  virtual Result<CgroupState> InspectTask(int pidfd) = 0;
  // FailedPrecondition if the process has ended, or is in another cgroup.
  virtual Result<TaskState> VerifyTask(const VerifyTaskPlan& plan,
                                       int pidfd) = 0;

  // A part of the work on the tree below `directory`, any fd of it that a
  // caller passed; the same plan again goes on with the rest (ChownTree: with
  // what the answer said). Busy if a mount lies in it.
  virtual Result<TreeReply> RemoveTree(const TreePlan& plan, int directory) = 0;
  virtual Result<TreeReply> ChownTree(const TreePlan& plan, int directory) = 0;

  // Both of the host's mount namespace.
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
  // What is there by the kernel's word alone, recorded or not (plan.h).
  virtual Result<std::vector<FoundTarget>> ListTargets() = 0;
  virtual Result<std::vector<FoundNetwork>> ListNetworks() = 0;
  // How many mounts there are below the plugin's directory. NotFound if that
  // was not prepared.
  virtual Result<std::uint64_t> CountMounts(const PluginPlan& plan) = 0;
  // NotFound if the mount has gone.
  virtual Result<ProbeReply> ProbeMount(const ProbePlan& plan) = 0;
  virtual Result<ProbeReply> ProbeVolume(const VolumeProbePlan& plan) = 0;
};

}  // namespace mountd::exec
