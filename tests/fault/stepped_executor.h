// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "mountd/base/steps.h"
#include "mountd/plan/executor.h"

namespace mountd::testing {

// Passes mountd's plans on to another executor, each as a step "plan <its
// method>". A step that fails returns a Code, as if no executor had been
// reached.
class SteppedExecutor final : public exec::Executor {
 public:
  SteppedExecutor(exec::Executor& executor, Steps& steps)
      : executor_(executor), steps_(steps) {}

  Result<exec::HelloReply> Hello() override {
    return Pass<exec::HelloReply>("Hello", [&] { return executor_.Hello(); });
  }
  std::uint32_t stuck() const override { return executor_.stuck(); }
  Result<exec::MountState> PrepareBase() override {
    return Pass<exec::MountState>("PrepareBase",
                                  [&] { return executor_.PrepareBase(); });
  }
  Result<void> PrepareAllocation(const exec::AllocationPlan& plan) override {
    return Pass<void>("PrepareAllocation",
                      [&] { return executor_.PrepareAllocation(plan); });
  }
  Result<void> RemoveAllocation(const exec::AllocationPlan& plan) override {
    return Pass<void>("RemoveAllocation",
                      [&] { return executor_.RemoveAllocation(plan); });
  }
  Result<exec::MountState> Attach(const exec::AttachPlan& plan,
                                  int fd) override {
    return Pass<exec::MountState>("Attach",
                                  [&] { return executor_.Attach(plan, fd); });
  }
  Result<exec::HandedOutFd> OpenTree(const exec::OpenTreePlan& plan) override {
    return Pass<exec::HandedOutFd>("OpenTree",
                                   [&] { return executor_.OpenTree(plan); });
  }
  Result<void> Detach(const exec::DetachPlan& plan) override {
    return Pass<void>("Detach", [&] { return executor_.Detach(plan); });
  }
  Result<exec::MountState> InspectTarget(
      const exec::TargetPlan& plan) override {
    return Pass<exec::MountState>(
        "InspectTarget", [&] { return executor_.InspectTarget(plan); });
  }
  Result<void> PrepareInbox(const exec::TaskPlan& plan) override {
    return Pass<void>("PrepareInbox",
                      [&] { return executor_.PrepareInbox(plan); });
  }
  Result<exec::HandedOutFd> OpenInbox(const exec::TaskPlan& plan) override {
    return Pass<exec::HandedOutFd>("OpenInbox",
                                   [&] { return executor_.OpenInbox(plan); });
  }
  Result<void> RemoveInbox(const exec::TaskPlan& plan) override {
    return Pass<void>("RemoveInbox",
                      [&] { return executor_.RemoveInbox(plan); });
  }
  Result<void> ReleaseAnchor(const exec::AnchorPlan& plan) override {
    return Pass<void>("ReleaseAnchor",
                      [&] { return executor_.ReleaseAnchor(plan); });
  }
  Result<exec::MountState> PreparePlugin(
      const exec::PluginPlan& plan) override {
    return Pass<exec::MountState>(
        "PreparePlugin", [&] { return executor_.PreparePlugin(plan); });
  }
  Result<void> RemovePlugin(const exec::PluginPlan& plan) override {
    return Pass<void>("RemovePlugin",
                      [&] { return executor_.RemovePlugin(plan); });
  }
  Result<PluginConnection> ConnectPlugin(
      const exec::PluginSocketPlan& plan) override {
    return Pass<PluginConnection>(
        "ConnectPlugin", [&] { return executor_.ConnectPlugin(plan); });
  }
  Result<exec::PluginReply> InspectPluginSocket(
      const exec::PluginSocketPlan& plan) override {
    return Pass<exec::PluginReply>("InspectPluginSocket", [&] {
      return executor_.InspectPluginSocket(plan);
    });
  }
  Result<void> RemovePluginSocket(const exec::PluginSocketPlan& plan) override {
    return Pass<void>("RemovePluginSocket",
                      [&] { return executor_.RemovePluginSocket(plan); });
  }
  Result<void> StartPlugin(const exec::PluginPlan& plan) override {
    return Pass<void>("StartPlugin",
                      [&] { return executor_.StartPlugin(plan); });
  }
  Result<void> StopPlugin(const exec::PluginPlan& plan) override {
    return Pass<void>("StopPlugin", [&] { return executor_.StopPlugin(plan); });
  }
  Result<exec::MountState> PrepareVolumeDir(
      const exec::VolumeDirPlan& plan) override {
    return Pass<exec::MountState>(
        "PrepareVolumeDir", [&] { return executor_.PrepareVolumeDir(plan); });
  }
  Result<exec::MountState> InspectVolumeDir(
      const exec::VolumeDirPlan& plan) override {
    return Pass<exec::MountState>(
        "InspectVolumeDir", [&] { return executor_.InspectVolumeDir(plan); });
  }
  Result<void> RemoveVolumeDir(const exec::VolumeDirPlan& plan) override {
    return Pass<void>("RemoveVolumeDir",
                      [&] { return executor_.RemoveVolumeDir(plan); });
  }
  Result<void> PrepareNetworks(bool anew) override {
    return Pass<void>("PrepareNetworks",
                      [&] { return executor_.PrepareNetworks(anew); });
  }
  Result<exec::NetworkState> CreateNetwork(const exec::NetworkPlan& plan,
                                           int netns, int keeper) override {
    return Pass<exec::NetworkState>("CreateNetwork", [&] {
      return executor_.CreateNetwork(plan, netns, keeper);
    });
  }
  Result<void> CheckHostPorts(const exec::NetworkPlan& plan,
                              int keeper) override {
    return Pass<void>("CheckHostPorts",
                      [&] { return executor_.CheckHostPorts(plan, keeper); });
  }
  Result<void> DeleteNetwork(const exec::NetworkPlan& plan) override {
    return Pass<void>("DeleteNetwork",
                      [&] { return executor_.DeleteNetwork(plan); });
  }
  Result<exec::NetworkState> InspectNetwork(
      const exec::NetworkPlan& plan) override {
    return Pass<exec::NetworkState>(
        "InspectNetwork", [&] { return executor_.InspectNetwork(plan); });
  }
  Result<exec::NetworkState> RepairNetwork(
      const exec::NetworkPlan& plan) override {
    return Pass<exec::NetworkState>(
        "RepairNetwork", [&] { return executor_.RepairNetwork(plan); });
  }
  Result<exec::HandedOutFd> OpenNamespace(
      const exec::NetworkPlan& plan) override {
    return Pass<exec::HandedOutFd>(
        "OpenNamespace", [&] { return executor_.OpenNamespace(plan); });
  }
  Result<exec::NetworkState> UpdatePorts(const exec::PortsPlan& plan) override {
    return Pass<exec::NetworkState>(
        "UpdatePorts", [&] { return executor_.UpdatePorts(plan); });
  }
  Result<UniqueFd> WatchNetworks(exec::NetworkWatchKind kind) override {
    return Pass<UniqueFd>("WatchNetworks",
                          [&] { return executor_.WatchNetworks(kind); });
  }
  Result<void> WriteNetworkFile(const exec::NetworkFilePlan& plan,
                                int content) override {
    return Pass<void>("WriteNetworkFile", [&] {
      return executor_.WriteNetworkFile(plan, content);
    });
  }
  Result<void> RemoveNetworkFiles(const exec::NetworkFilePlan& plan) override {
    return Pass<void>("RemoveNetworkFiles",
                      [&] { return executor_.RemoveNetworkFiles(plan); });
  }
  Result<UniqueFd> RunCni(const exec::CniPlan& plan, int request) override {
    return Pass<UniqueFd>("RunCni",
                          [&] { return executor_.RunCni(plan, request); });
  }
  Result<exec::CgroupState> InspectCgroup(
      const exec::CgroupPlan& plan) override {
    return Pass<exec::CgroupState>(
        "InspectCgroup", [&] { return executor_.InspectCgroup(plan); });
  }
  Result<exec::HoldersState> FindHolders(
      const exec::HoldersPlan& plan) override {
    return Pass<exec::HoldersState>(
        "FindHolders", [&] { return executor_.FindHolders(plan); });
  }
  Result<exec::CopiesState> FindCopies(const exec::CopiesPlan& plan) override {
    return Pass<exec::CopiesState>("FindCopies",
                                   [&] { return executor_.FindCopies(plan); });
  }
  Result<std::vector<exec::FoundTarget>> ListTargets() override {
    return Pass<std::vector<exec::FoundTarget>>(
        "ListTargets", [&] { return executor_.ListTargets(); });
  }
  Result<std::vector<exec::FoundNetwork>> ListNetworks() override {
    return Pass<std::vector<exec::FoundNetwork>>(
        "ListNetworks", [&] { return executor_.ListNetworks(); });
  }
  Result<exec::StopTasksState> StopTasks(
      const exec::StopTasksPlan& plan) override {
    return Pass<exec::StopTasksState>(
        "StopTasks", [&] { return executor_.StopTasks(plan); });
  }
  Result<exec::HoldersState> FindProcesses(
      const exec::ProcessesPlan& plan) override {
    return Pass<exec::HoldersState>(
        "FindProcesses", [&] { return executor_.FindProcesses(plan); });
  }
  Result<exec::CgroupState> InspectTask(int pidfd) override {
    return Pass<exec::CgroupState>(
        "InspectTask", [&] { return executor_.InspectTask(pidfd); });
  }
  Result<exec::TaskState> VerifyTask(const exec::VerifyTaskPlan& plan,
                                     int pidfd) override {
    return Pass<exec::TaskState>(
        "VerifyTask", [&] { return executor_.VerifyTask(plan, pidfd); });
  }
  Result<exec::TreeReply> RemoveTree(const exec::TreePlan& plan,
                                     int directory) override {
    return Pass<exec::TreeReply>(
        "RemoveTree", [&] { return executor_.RemoveTree(plan, directory); });
  }
  Result<exec::TreeReply> ChownTree(const exec::TreePlan& plan,
                                    int directory) override {
    return Pass<exec::TreeReply>(
        "ChownTree", [&] { return executor_.ChownTree(plan, directory); });
  }
  Result<MountWatch> WatchMounts() override {
    return Pass<MountWatch>("WatchMounts",
                            [&] { return executor_.WatchMounts(); });
  }
  Result<MountList> ListMounts() override {
    return Pass<MountList>("ListMounts",
                           [&] { return executor_.ListMounts(); });
  }
  Result<std::uint64_t> CountMounts(const exec::PluginPlan& plan) override {
    return Pass<std::uint64_t>("CountMounts",
                               [&] { return executor_.CountMounts(plan); });
  }
  Result<exec::ProbeReply> ProbeMount(const exec::ProbePlan& plan) override {
    return Pass<exec::ProbeReply>("ProbeMount",
                                  [&] { return executor_.ProbeMount(plan); });
  }
  Result<exec::ProbeReply> ProbeVolume(
      const exec::VolumeProbePlan& plan) override {
    return Pass<exec::ProbeReply>("ProbeVolume",
                                  [&] { return executor_.ProbeVolume(plan); });
  }

 private:
  template <typename T, typename Call>
  Result<T> Pass(const char* name, const Call& call) {
    const std::string step = std::string("plan ") + name;
    if (const int code = steps_.Begin(step); code != 0) {
      return MakeError(static_cast<Code>(code), "plan", name,
                       "as a test has it");
    }
    Result<T> outcome = call();
    steps_.End();
    return outcome;
  }

  exec::Executor& executor_;
  Steps& steps_;
};

}  // namespace mountd::testing
