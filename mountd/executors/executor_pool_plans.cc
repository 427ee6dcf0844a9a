// SPDX-License-Identifier: LGPL-2.1-or-later
#include <array>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "mountd/base/memory_file.h"
#include "mountd/executors/executor_pool.h"
#include "mountd/plan/request_size.h"

namespace mountd::exec {
namespace {

Request MakeRequest(PlanKind kind) {
  Request request;
  request.kind = kind;
  return request;
}

// `field` is the member of PlanBody for `kind`.
template <typename Plan>
Request MakeRequest(PlanKind kind, Plan PlanBody::*field, const Plan& plan) {
  static_assert(
      sizeof(Plan) <= kUsualBodyBytes || std::is_same_v<Plan, PortsPlan>,
      "the executor would get a part of the plan; name it in request_size.h");
  Request request = MakeRequest(kind);
  request.body.*field = plan;
  return request;
}

template <typename Row>
Result<std::vector<Row>> RowsIn(const UniqueFd& memory) {
  constexpr std::size_t kMostBytes = std::size_t{256} << 20U;
  MOUNTD_ASSIGN(const std::string bytes, ReadMemory(memory.get(), kMostBytes));
  std::vector<Row> rows(bytes.size() / sizeof(Row));
  // string::copy, because memcpy(3) forbids the null pointer of an empty
  // vector.
  bytes.copy(reinterpret_cast<char*>(rows.data()), rows.size() * sizeof(Row));
  return rows;
}

}  // namespace

Result<MountState> ExecutorPool::RunForMount(const Request& request) {
  MOUNTD_ASSIGN(const Answer answer, Run(mounts_, request));
  return answer.reply.body.mount;
}

Result<void> ExecutorPool::RunForNothing(ExecutorLane& lane,
                                         const Request& request) {
  MOUNTD_TRY(Run(lane, request));
  return Ok();
}

Result<UniqueFd> ExecutorPool::RunForFd(ExecutorLane& lane,
                                        const Request& request,
                                        std::span<const int> fds) {
  MOUNTD_ASSIGN(Answer answer, Run(lane, request, fds));
  if (!answer.fd.valid()) {
    return MakeError(Code::kInternal, "plan", "executor",
                     "did not send the file descriptor");
  }
  return std::move(answer.fd);
}

Result<HandedOutFd> ExecutorPool::RunForHandedOut(ExecutorLane& lane,
                                                  const Request& request) {
  MOUNTD_ASSIGN(Answer answer, Run(lane, request));
  if (!answer.fd.valid()) {
    return MakeError(Code::kInternal, "plan", "executor",
                     "did not send the file descriptor");
  }
  return HandedOutFd{std::move(answer.fd), answer.reply.body.handed_out};
}

Result<HelloReply> ExecutorPool::Hello() {
  MOUNTD_ASSIGN(const Answer answer,
                Run(mounts_, MakeRequest(PlanKind::kHello)));
  return answer.reply.body.hello;
}

Result<MountState> ExecutorPool::PrepareBase() {
  return RunForMount(MakeRequest(PlanKind::kPrepareBase));
}

Result<void> ExecutorPool::PrepareAllocation(const AllocationPlan& plan) {
  return RunForNothing(mounts_, MakeRequest(PlanKind::kPrepareAllocation,
                                            &PlanBody::allocation, plan));
}

Result<void> ExecutorPool::RemoveAllocation(const AllocationPlan& plan) {
  return RunForNothing(mounts_, MakeRequest(PlanKind::kRemoveAllocation,
                                            &PlanBody::allocation, plan));
}

Result<MountState> ExecutorPool::Attach(const AttachPlan& plan, int fd) {
  const std::array<int, 1> fds = {fd};
  MOUNTD_ASSIGN(
      const Answer answer,
      Run(mounts_, MakeRequest(PlanKind::kAttach, &PlanBody::attach, plan),
          std::span(fds).first(fd < 0 ? 0 : 1)));
  return answer.reply.body.mount;
}

Result<HandedOutFd> ExecutorPool::OpenTree(const OpenTreePlan& plan) {
  return RunForHandedOut(
      mounts_, MakeRequest(PlanKind::kOpenTree, &PlanBody::open_tree, plan));
}

Result<void> ExecutorPool::Detach(const DetachPlan& plan) {
  return RunForNothing(mounts_,
                       MakeRequest(PlanKind::kDetach, &PlanBody::detach, plan));
}

Result<MountState> ExecutorPool::InspectTarget(const TargetPlan& plan) {
  return RunForMount(
      MakeRequest(PlanKind::kInspectTarget, &PlanBody::target, plan));
}

Result<void> ExecutorPool::ReleaseAnchor(const AnchorPlan& plan) {
  return RunForNothing(
      mounts_, MakeRequest(PlanKind::kReleaseAnchor, &PlanBody::anchor, plan));
}

Result<void> ExecutorPool::PrepareInbox(const TaskPlan& plan) {
  return RunForNothing(
      mounts_, MakeRequest(PlanKind::kPrepareInbox, &PlanBody::task, plan));
}

Result<void> ExecutorPool::RemoveInbox(const TaskPlan& plan) {
  return RunForNothing(
      mounts_, MakeRequest(PlanKind::kRemoveInbox, &PlanBody::task, plan));
}

Result<HandedOutFd> ExecutorPool::OpenInbox(const TaskPlan& plan) {
  return RunForHandedOut(
      mounts_, MakeRequest(PlanKind::kOpenInbox, &PlanBody::task, plan));
}

Result<MountState> ExecutorPool::PreparePlugin(const PluginPlan& plan) {
  return RunForMount(
      MakeRequest(PlanKind::kPreparePlugin, &PlanBody::plugin, plan));
}

Result<void> ExecutorPool::RemovePlugin(const PluginPlan& plan) {
  return RunForNothing(
      mounts_, MakeRequest(PlanKind::kRemovePlugin, &PlanBody::plugin, plan));
}

Result<PluginExecutor::PluginConnection> ExecutorPool::ConnectPlugin(
    const PluginSocketPlan& plan) {
  MOUNTD_ASSIGN(Answer answer,
                Run(mounts_, MakeRequest(PlanKind::kConnectPlugin,
                                         &PlanBody::plugin_socket, plan)));
  if (!answer.fd.valid()) {
    return MakeError(Code::kInternal, "connect", "plugin",
                     "the executor did not send the socket");
  }
  return PluginConnection{std::move(answer.fd), answer.reply.body.plugin};
}

Result<PluginReply> ExecutorPool::InspectPluginSocket(
    const PluginSocketPlan& plan) {
  MOUNTD_ASSIGN(const Answer answer,
                Run(mounts_, MakeRequest(PlanKind::kInspectPluginSocket,
                                         &PlanBody::plugin_socket, plan)));
  return answer.reply.body.plugin;
}

Result<void> ExecutorPool::RemovePluginSocket(const PluginSocketPlan& plan) {
  return RunForNothing(mounts_, MakeRequest(PlanKind::kRemovePluginSocket,
                                            &PlanBody::plugin_socket, plan));
}

Result<void> ExecutorPool::StartPlugin(const PluginPlan& plan) {
  return RunForNothing(
      mounts_, MakeRequest(PlanKind::kStartPlugin, &PlanBody::plugin, plan));
}

Result<void> ExecutorPool::StopPlugin(const PluginPlan& plan) {
  return RunForNothing(
      mounts_, MakeRequest(PlanKind::kStopPlugin, &PlanBody::plugin, plan));
}

Result<MountState> ExecutorPool::PrepareVolumeDir(const VolumeDirPlan& plan) {
  return RunForMount(
      MakeRequest(PlanKind::kPrepareVolumeDir, &PlanBody::volume_dir, plan));
}

Result<MountState> ExecutorPool::InspectVolumeDir(const VolumeDirPlan& plan) {
  return RunForMount(
      MakeRequest(PlanKind::kInspectVolumeDir, &PlanBody::volume_dir, plan));
}

Result<void> ExecutorPool::RemoveVolumeDir(const VolumeDirPlan& plan) {
  return RunForNothing(mounts_, MakeRequest(PlanKind::kRemoveVolumeDir,
                                            &PlanBody::volume_dir, plan));
}

Result<void> ExecutorPool::PrepareNetworks(bool anew) {
  return RunForNothing(
      networks_,
      MakeRequest(PlanKind::kPrepareNetworks, &PlanBody::prepare_networks,
                  PrepareNetworksPlan{anew ? 1U : 0U}));
}

Result<NetworkState> ExecutorPool::CreateNetwork(const NetworkPlan& plan,
                                                 int netns, int keeper) {
  // The executor takes the namespace from the front of the list and the keeper
  // from its back (mountd/exec/dispatcher.cc).
  std::vector<int> fds = {netns, keeper};
  std::erase(fds, -1);
  MOUNTD_ASSIGN(const Answer answer, Run(networks_,
                                         MakeRequest(PlanKind::kCreateNetwork,
                                                     &PlanBody::network, plan),
                                         fds));
  return answer.reply.body.network;
}

Result<void> ExecutorPool::CheckHostPorts(const NetworkPlan& plan, int keeper) {
  MOUNTD_TRY(
      Run(networks_,
          MakeRequest(PlanKind::kCheckHostPorts, &PlanBody::network, plan),
          std::span(&keeper, keeper < 0 ? 0U : 1U)));
  return Ok();
}

Result<NetworkState> ExecutorPool::RepairNetwork(const NetworkPlan& plan) {
  MOUNTD_ASSIGN(const Answer answer,
                Run(networks_, MakeRequest(PlanKind::kRepairNetwork,
                                           &PlanBody::network, plan)));
  return answer.reply.body.network;
}

Result<void> ExecutorPool::WriteNetworkFile(const NetworkFilePlan& plan,
                                            int content) {
  MOUNTD_TRY(Run(
      mounts_,
      MakeRequest(PlanKind::kWriteNetworkFile, &PlanBody::network_file, plan),
      std::span(&content, 1)));
  return Ok();
}

Result<void> ExecutorPool::RemoveNetworkFiles(const NetworkFilePlan& plan) {
  return RunForNothing(mounts_, MakeRequest(PlanKind::kRemoveNetworkFiles,
                                            &PlanBody::network_file, plan));
}

Result<HandedOutFd> ExecutorPool::OpenNamespace(const NetworkPlan& plan) {
  return RunForHandedOut(networks_, MakeRequest(PlanKind::kOpenNamespace,
                                                &PlanBody::network, plan));
}

Result<NetworkState> ExecutorPool::UpdatePorts(const PortsPlan& plan) {
  MOUNTD_ASSIGN(const Answer answer,
                Run(networks_, MakeRequest(PlanKind::kUpdatePorts,
                                           &PlanBody::ports, plan)));
  return answer.reply.body.network;
}

Result<UniqueFd> ExecutorPool::WatchNetworks(NetworkWatchKind kind) {
  return RunForFd(
      networks_, MakeRequest(PlanKind::kWatchNetworks, &PlanBody::network_watch,
                             NetworkWatchPlan{kind}));
}

Result<UniqueFd> ExecutorPool::RunCni(const CniPlan& plan, int request) {
  // A DEL must not wait behind ADDs, because a plugin's ADD may take any time.
  ExecutorLane& lane = plan.verb == CniVerb::kDel ? cni_ends_ : cni_;
  return RunForFd(lane, MakeRequest(PlanKind::kRunCni, &PlanBody::cni, plan),
                  std::span(&request, 1));
}

Result<void> ExecutorPool::DeleteNetwork(const NetworkPlan& plan) {
  return RunForNothing(networks_, MakeRequest(PlanKind::kDeleteNetwork,
                                              &PlanBody::network, plan));
}

Result<NetworkState> ExecutorPool::InspectNetwork(const NetworkPlan& plan) {
  MOUNTD_ASSIGN(const Answer answer,
                Run(networks_, MakeRequest(PlanKind::kInspectNetwork,
                                           &PlanBody::network, plan)));
  return answer.reply.body.network;
}

Result<CgroupState> ExecutorPool::InspectCgroup(const CgroupPlan& plan) {
  MOUNTD_ASSIGN(const Answer answer,
                Run(mounts_, MakeRequest(PlanKind::kInspectCgroup,
                                         &PlanBody::cgroup, plan)));
  return answer.reply.body.cgroup;
}

Result<HoldersState> ExecutorPool::FindHolders(const HoldersPlan& plan) {
  MOUNTD_ASSIGN(const Answer answer,
                Run(searches_, MakeRequest(PlanKind::kFindHolders,
                                           &PlanBody::holders, plan)));
  return answer.reply.body.holders;
}

Result<HoldersState> ExecutorPool::FindProcesses(const ProcessesPlan& plan) {
  MOUNTD_ASSIGN(const Answer answer,
                Run(searches_, MakeRequest(PlanKind::kFindProcesses,
                                           &PlanBody::processes, plan)));
  return answer.reply.body.holders;
}

Result<CopiesState> ExecutorPool::FindCopies(const CopiesPlan& plan) {
  MOUNTD_ASSIGN(const Answer answer,
                Run(searches_, MakeRequest(PlanKind::kFindCopies,
                                           &PlanBody::copies, plan)));
  return answer.reply.body.copies;
}

Result<CgroupState> ExecutorPool::InspectTask(int pidfd) {
  MOUNTD_ASSIGN(
      const Answer answer,
      Run(mounts_, MakeRequest(PlanKind::kInspectTask), std::span(&pidfd, 1)));
  return answer.reply.body.cgroup;
}

Result<TaskState> ExecutorPool::VerifyTask(const VerifyTaskPlan& plan,
                                           int pidfd) {
  MOUNTD_ASSIGN(
      const Answer answer,
      Run(mounts_,
          MakeRequest(PlanKind::kVerifyTask, &PlanBody::verify_task, plan),
          std::span(&pidfd, 1)));
  return answer.reply.body.task;
}

// Uses the lane of searches, because a stop, like a search, may wait for
// processes.
Result<StopTasksState> ExecutorPool::StopTasks(const StopTasksPlan& plan) {
  MOUNTD_ASSIGN(const Answer answer,
                Run(searches_, MakeRequest(PlanKind::kStopTasks,
                                           &PlanBody::stop_tasks, plan)));
  return answer.reply.body.stop_tasks;
}

Result<TreeReply> ExecutorPool::RunOnTree(PlanKind kind, const TreePlan& plan,
                                          int directory) {
  MOUNTD_ASSIGN(const Answer answer,
                Run(trees_, MakeRequest(kind, &PlanBody::tree, plan),
                    std::span(&directory, 1)));
  return answer.reply.body.tree;
}

Result<TreeReply> ExecutorPool::RemoveTree(const TreePlan& plan,
                                           int directory) {
  return RunOnTree(PlanKind::kRemoveTree, plan, directory);
}

Result<TreeReply> ExecutorPool::ChownTree(const TreePlan& plan, int directory) {
  return RunOnTree(PlanKind::kChownTree, plan, directory);
}

Result<MountExecutor::MountWatch> ExecutorPool::WatchMounts() {
  MOUNTD_ASSIGN(Answer answer,
                Run(mounts_, MakeRequest(PlanKind::kWatchMounts)));
  return MountWatch{std::move(answer.fd), answer.reply.body.watch};
}

Result<MountExecutor::MountList> ExecutorPool::ListMounts() {
  MOUNTD_ASSIGN(Answer answer,
                Run(mounts_, MakeRequest(PlanKind::kListMounts)));
  return MountList{std::move(answer.fd), answer.reply.body.mount_list};
}

Result<std::vector<FoundTarget>> ExecutorPool::ListTargets() {
  MOUNTD_ASSIGN(const UniqueFd rows,
                RunForFd(mounts_, MakeRequest(PlanKind::kListTargets)));
  return RowsIn<FoundTarget>(rows);
}

Result<std::vector<FoundNetwork>> ExecutorPool::ListNetworks() {
  MOUNTD_ASSIGN(const UniqueFd rows,
                RunForFd(networks_, MakeRequest(PlanKind::kListNetworks)));
  return RowsIn<FoundNetwork>(rows);
}

Result<std::uint64_t> ExecutorPool::CountMounts(const PluginPlan& plan) {
  MOUNTD_ASSIGN(const Answer answer,
                Run(mounts_, MakeRequest(PlanKind::kCountMounts,
                                         &PlanBody::plugin, plan)));
  return answer.reply.body.mount_list.count;
}

Result<ProbeReply> ExecutorPool::ProbeMount(const ProbePlan& plan) {
  MOUNTD_ASSIGN(
      const Answer answer,
      Run(probes_, MakeRequest(PlanKind::kProbeMount, &PlanBody::probe, plan)));
  return answer.reply.body.probe;
}

Result<ProbeReply> ExecutorPool::ProbeVolume(const VolumeProbePlan& plan) {
  MOUNTD_ASSIGN(const Answer answer,
                Run(probes_, MakeRequest(PlanKind::kProbeVolume,
                                         &PlanBody::volume_probe, plan)));
  return answer.reply.body.probe;
}

}  // namespace mountd::exec
