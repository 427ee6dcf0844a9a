// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "mountd/base/unique_fd.h"
#include "mountd/exec/executor.h"
#include "mountd/exec/executor_pool_lane.h"

namespace mountd::exec {

// The executors behind their sockets. Each connection is one mountd-exec
// process that does one plan at a time. Mount plans share up to `mount_lanes`
// connections, opened as they are needed; network plans have a lane of their
// own and run in the order they came (rtnetlink is one queue in the kernel
// anyway); so have searches for holders, which may take long. Plans on trees of
// files, which may keep a disk busy, have two, probes of file systems one.
// Operations of CNI's plugins, which are processes, share `cni_lanes`, and
// those that end networks as many again.
//
// An instance that does not answer by the deadline is abandoned: its answer is
// refused, so that it undoes what it was doing once it can, and the next plan
// gets a new one. Long before, at `slow`, it keeps no other plan waiting any
// more. Until its process has ended, plans on the same thing (a volume, a
// target) are refused as Unavailable, and all of them while `max_stuck` are
// stuck: each is a process, and whatever holds them may hold every other.
class ExecutorPool final : public Executor {
 public:
  using Connector = std::function<Result<UniqueFd>()>;

  struct Options {
    std::uint32_t mount_lanes = 4;
    // For its turn, and again for the plan.
    std::chrono::milliseconds deadline{10'000};
    std::uint32_t max_stuck = 16;
    std::chrono::milliseconds slow{250};
    // Of CNI's, whose plugins take what they take.
    std::chrono::milliseconds cni_deadline{40'000};
    std::uint32_t cni_lanes = 4;
  };

  // One connection for mount plans and one for network plans: each has its
  // executor started, which takes some milliseconds.
  struct Ahead {
    UniqueFd mounts;
    UniqueFd networks;
  };
  // For a pool to be made of later, so that mountd and its first executors
  // start side by side. What does not succeed is left to the first plan.
  static Ahead StartAhead(const Connector& connect);

  ExecutorPool(Connector connect, Options options, Ahead ahead = {});
  ~ExecutorPool() override;

  // Connects to an executor's SOCK_SEQPACKET socket by path.
  static Connector ConnectTo(std::string path);

  // Closes connections that a peak has left: all that were idle since the last
  // call, but one of each lane. Their processes end. Called now and then.
  void CloseIdle();

  // From now on plans are carried out by executors that were started after
  // this, which have read the configuration as it is now.
  void Renew();

  Result<HelloReply> Hello() override;
  std::uint32_t stuck() const override;
  Result<MountState> PrepareBase() override;
  Result<void> PrepareAllocation(const AllocationPlan& plan) override;
  Result<void> RemoveAllocation(const AllocationPlan& plan) override;
  Result<MountState> Attach(const AttachPlan& plan, int fd) override;
  Result<HandedOut> OpenTree(const OpenTreePlan& plan) override;
  Result<void> Detach(const DetachPlan& plan) override;
  Result<MountState> InspectTarget(const TargetPlan& plan) override;
  Result<void> ReleaseAnchor(const AnchorPlan& plan) override;
  Result<void> PrepareInbox(const TaskPlan& plan) override;
  Result<void> RemoveInbox(const TaskPlan& plan) override;
  Result<HandedOut> OpenInbox(const TaskPlan& plan) override;
  Result<MountState> PreparePlugin(const PluginPlan& plan) override;
  Result<void> RemovePlugin(const PluginPlan& plan) override;
  Result<PluginConnection> ConnectPlugin(const PluginSocketPlan& plan) override;
  Result<PluginReply> InspectPluginSocket(
      const PluginSocketPlan& plan) override;
  Result<void> RemovePluginSocket(const PluginSocketPlan& plan) override;
  Result<void> StartPlugin(const PluginPlan& plan) override;
  Result<void> StopPlugin(const PluginPlan& plan) override;
  Result<MountState> PrepareVolumeDir(const VolumeDirPlan& plan) override;
  Result<MountState> InspectVolumeDir(const VolumeDirPlan& plan) override;
  Result<void> RemoveVolumeDir(const VolumeDirPlan& plan) override;
  Result<void> PrepareNetworks(bool anew) override;
  Result<NetworkState> CreateNetwork(const NetworkPlan& plan, int netns,
                                     int keeper) override;
  Result<void> CheckHostPorts(const NetworkPlan& plan, int keeper) override;
  Result<void> DeleteNetwork(const NetworkPlan& plan) override;
  Result<NetworkState> InspectNetwork(const NetworkPlan& plan) override;
  Result<NetworkState> RepairNetwork(const NetworkPlan& plan) override;
  Result<UniqueFd> WatchNetworks(NetworkWatchKind kind) override;
  Result<void> WriteNetworkFile(const NetworkFilePlan& plan,
                                int content) override;
  Result<void> RemoveNetworkFiles(const NetworkFilePlan& plan) override;
  Result<UniqueFd> RunCni(const CniPlan& plan, int request) override;
  Result<CgroupState> InspectCgroup(const CgroupPlan& plan) override;
  Result<HoldersState> FindHolders(const HoldersPlan& plan) override;
  Result<CopiesState> FindCopies(const CopiesPlan& plan) override;
  Result<HoldersState> FindProcesses(const ProcessesPlan& plan) override;
  Result<CgroupState> InspectTask(int pidfd) override;
  Result<TaskState> VerifyTask(const VerifyTaskPlan& plan, int pidfd) override;
  Result<TreeReply> RemoveTree(const TreePlan& plan, int directory) override;
  Result<TreeReply> ChownTree(const TreePlan& plan, int directory) override;
  Result<MountWatch> WatchMounts() override;
  Result<MountList> ListMounts() override;
  Result<std::vector<FoundTarget>> ListTargets() override;
  Result<std::vector<FoundNetwork>> ListNetworks() override;
  Result<std::uint64_t> CountMounts(const PluginPlan& plan) override;
  Result<ProbeReply> ProbeMount(const ProbePlan& plan) override;
  Result<ProbeReply> ProbeVolume(const VolumeProbePlan& plan) override;

 private:
  // An executor that did not answer, and what its plan was on.
  struct Abandoned {
    UniqueFd connection;
    std::string holder;
  };

  struct Answer {
    Reply reply;
    UniqueFd fd;
  };

  // `fds` are the caller's, sent beside the request.
  Result<Answer> Run(ExecutorLane& lane, const Request& request,
                     std::span<const int> fds = {});
  Result<HandedOut> RunForHandedOut(const Request& request);
  Result<UniqueFd> RunForFd(ExecutorLane& lane, const Request& request,
                            std::span<const int> fds = {});
  std::chrono::milliseconds DeadlineOf(PlanKind kind) const;
  Result<void> CheckStuck(const std::string& holder) const;
  void Abandon(UniqueFd connection, std::string holder);
  Result<MountState> RunForMount(const Request& request);
  Result<TreeReply> RunOnTree(PlanKind kind, const TreePlan& plan,
                              int directory);
  Result<void> RunForNothing(ExecutorLane& lane, const Request& request);

  const Connector connect_;
  const Options options_;
  ExecutorLane mounts_;
  ExecutorLane networks_;
  ExecutorLane cni_;
  ExecutorLane cni_ends_;  // DEL waits for no ADD
  ExecutorLane searches_;
  ExecutorLane trees_;
  ExecutorLane probes_;
  mutable std::mutex mutex_;
  mutable std::vector<Abandoned>
      abandoned_;  // mutex_; those that have not ended
};

}  // namespace mountd::exec
