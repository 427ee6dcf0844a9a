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
#include "mountd/executors/executor_pool_lane.h"
#include "mountd/plan/executor.h"

namespace mountd::exec {

// Owns the connections to the executors. Each connection is one mountd-exec
// process that carries out one plan at a time. Mount plans share up to
// `mount_lanes` connections, which open as needed. Network plans have one
// connection, because rtnetlink is one queue in the kernel. Searches for
// holders may take long, so they have two connections, and each user uses at
// most one. Plans on trees of files may keep a disk busy, so they have four,
// and each user uses at most two. Probes of file systems have one connection.
// CNI operations run processes and share `cni_lanes` connections; CNI DEL has
// the same number of its own. Users whose plans wait for a lane take turns
// (CurrentUser).
//
// Abandons an executor that does not answer by the deadline. The kernel then
// refuses the executor's answer, so the executor undoes the plan as soon as it
// can, and the next plan gets a new executor. A plan that takes longer than
// `slow` no longer delays other plans, long before its deadline. Until an
// abandoned process has ended, refuses plans on the same object (a volume, a
// target) as Unavailable. Refuses all plans of a user while `max_stuck`
// executors are stuck with plans of that user, because each is a process and
// the next plan may get stuck too. Refuses everybody's plans while
// `max_stuck_in_all` executors are stuck.
class ExecutorPool final : public Executor {
 public:
  using Connector = std::function<Result<UniqueFd>()>;

  struct Options {
    std::uint32_t mount_lanes = 4;
    // The time that a plan may wait for a turn. The plan itself then has as
    // long again.
    std::chrono::milliseconds deadline{10'000};
    std::uint32_t max_stuck = 16;  // of one user
    std::chrono::milliseconds slow{250};
    // The same for CNI. This time is longer, because CNI plugins may take any
    // time.
    std::chrono::milliseconds cni_deadline{40'000};
    std::uint32_t cni_lanes = 4;
    // Less than MaxConnections= of mountd-exec.socket.
    std::uint32_t max_stuck_in_all = 96;
  };

  // One connection for mount plans and one for network plans. Opening a
  // connection starts an executor, which takes some milliseconds.
  struct Ahead {
    UniqueFd mounts;
    UniqueFd networks;
  };
  // Opens connections for a later pool, so that the first executors start while
  // mountd starts. If opening fails here, the first plan opens the connection.
  static Ahead StartAhead(const Connector& connect);

  ExecutorPool(Connector connect, Options options, Ahead ahead = {});
  ~ExecutorPool() override;

  // Connects to an executor's SOCK_SEQPACKET socket by path.
  static Connector ConnectTo(std::string path);

  // Closes all connections that were idle since the last call, except one in
  // each lane. So processes of a busy time end. Called now and then.
  void CloseIdle();

  // Makes later plans use executors that start after this call, because only
  // those have read the current configuration.
  void Renew();

  Result<HelloReply> Hello() override;
  std::uint32_t stuck() const override;
  Result<MountState> PrepareBase() override;
  Result<void> PrepareAllocation(const AllocationPlan& plan) override;
  Result<void> RemoveAllocation(const AllocationPlan& plan) override;
  Result<MountState> Attach(const AttachPlan& plan, int fd) override;
  Result<HandedOutFd> OpenTree(const OpenTreePlan& plan) override;
  Result<void> Detach(const DetachPlan& plan) override;
  Result<MountState> InspectTarget(const TargetPlan& plan) override;
  Result<void> ReleaseAnchor(const AnchorPlan& plan) override;
  Result<void> PrepareInbox(const TaskPlan& plan) override;
  Result<void> RemoveInbox(const TaskPlan& plan) override;
  Result<HandedOutFd> OpenInbox(const TaskPlan& plan) override;
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
  Result<HandedOutFd> OpenNamespace(const NetworkPlan& plan) override;
  Result<NetworkState> UpdatePorts(const PortsPlan& plan) override;
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
  Result<StopTasksState> StopTasks(const StopTasksPlan& plan) override;
  Result<MountWatch> WatchMounts() override;
  Result<MountList> ListMounts() override;
  Result<std::vector<FoundTarget>> ListTargets() override;
  Result<std::vector<FoundNetwork>> ListNetworks() override;
  Result<std::uint64_t> CountMounts(const PluginPlan& plan) override;
  Result<ProbeReply> ProbeMount(const ProbePlan& plan) override;
  Result<ProbeReply> ProbeVolume(const VolumeProbePlan& plan) override;

 private:
  // An executor that did not answer, and the user and object of its plan.
  struct Abandoned {
    UniqueFd connection;
    ExecutorLane::Key key;
  };

  struct Answer {
    Reply reply;
    UniqueFd fd;
  };

  // Sends `fds`, which stay the caller's, beside the request. Puts the current
  // operation's trace into the request.
  Result<Answer> Run(ExecutorLane& lane, const Request& request,
                     std::span<const int> fds = {});
  Result<Answer> RunInTurn(ExecutorLane& lane, const Request& request,
                           std::span<const int> fds);
  // Sends the request on the connection, and receives the answer. Connects
  // first if there is no connection, or if its executor has ended.
  Result<Answer> Exchange(UniqueFd& connection, const Request& request,
                          std::span<const int> fds,
                          std::chrono::steady_clock::time_point deadline) const;
  Result<HandedOutFd> RunForHandedOut(ExecutorLane& lane,
                                      const Request& request);
  Result<UniqueFd> RunForFd(ExecutorLane& lane, const Request& request,
                            std::span<const int> fds = {});
  std::chrono::milliseconds DeadlineOf(PlanKind kind) const;
  ExecutorLane::Options WithSpare(std::uint32_t width,
                                  std::uint32_t on_object) const;
  std::size_t StuckOf(std::uint32_t user) const;
  Result<void> CheckStuck(const ExecutorLane::Key& key) const;
  void Abandon(UniqueFd connection, ExecutorLane::Key key);
  Result<MountState> RunForMount(const Request& request);
  Result<TreeReply> RunOnTree(PlanKind kind, const TreePlan& plan,
                              int directory);
  Result<void> RunForNothing(ExecutorLane& lane, const Request& request);

  const Connector connect_;
  const Options options_;
  ExecutorLane mounts_;
  ExecutorLane networks_;
  ExecutorLane cni_;
  ExecutorLane cni_ends_;  // so that DEL waits for no ADD
  ExecutorLane searches_;
  ExecutorLane trees_;
  ExecutorLane probes_;
  mutable std::mutex mutex_;
  mutable std::vector<Abandoned>
      abandoned_;  // mutex_; those that have not ended yet
};

}  // namespace mountd::exec
