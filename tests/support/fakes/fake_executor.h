// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "mountd/plan/executor.h"
#include "tests/support/fakes/call_script.h"
#include "tests/support/fakes/fake_state.h"

namespace mountd::exec {

// Models an executor and its machine in memory, and answers as the real
// executor does. CallScript decides how its calls fail. A method's name there
// is the C++ one ("Attach"); its objects are
//   web                      an allocation, its network
//   web/task/name            a target
//   web/task                 an inbox
//   data                     a host volume
//   plugin                   a plugin, and its csi.sock
//   plugin/<instance>        another socket of the plugin
//   plugin/staging/<key>     a volume's directories
//   plugin/publish/web/<key>
//   tree                     any tree of files
//   add web/eth0             an operation of CNI; "list", "gc"
// Thread-safe.
class FakeExecutor final : public Executor, private FakeState {
 public:
  FakeExecutor() = default;

  CallScript<Error>& script() { return script_; }
  void FailNext(const std::string& method, Code code,
                FailWhen when = FailWhen::kBefore, std::size_t times = 1);
  void FailNth(std::size_t n, Code code, FailWhen when);

  // Returns all plans in order, also those that failed.
  std::vector<Request> plans() const;

  // Returns all objects, sorted: "allocation web", "inbox web/task", "mount
  // web/task/name", "anchor data", "plugin p", "directory p/staging/<key>",
  // "network web", "link 10.0.0.2", "cni web/eth0". Leaves out the base and the
  // objects of PrepareNetworks.
  std::vector<std::string> Existing() const;

  // ---- What others do to the machine ----
  // Makes removing or unmounting `object` Busy, or ends that.
  void SetBusy(const std::string& object, bool busy = true);
  // Unmounts the target without mountd; ReplaceMount also mounts something else
  // there.
  void LoseMount(const std::string& target);
  void ReplaceMount(const std::string& target);
  // Puts another mount beneath the target's, as an interrupted replacement
  // leaves it.
  void StackMount(const std::string& target);
  // Declares the host volume a mount already, so that Attach adds no anchor.
  void SetOwnMount(const std::string& host_volume);
  std::uint64_t MountIdOf(const std::string& target) const;
  std::uint64_t AnchorOf(const std::string& host_volume) const;
  // Mounts below the plugin's own directory, as the plugin would; `part` is the
  // object above without the plugin.
  enum class PutAs { kMount, kBareDirectory, kDevice };
  void PutVolume(const std::string& plugin, const std::string& part,
                 PutAs as = PutAs::kMount);
  void TakeVolume(const std::string& plugin, const std::string& part);
  // Sets whether a process listens on the plugin's socket. At first one does.
  void SetListening(const std::string& socket, bool listening);
  // Closes all connections of the plugin.
  void HangUp(const std::string& socket);
  // Makes another process listen there, while the one before lives on.
  void ReplaceSocket(const std::string& socket);
  // Puts every process that listens on any socket into this cgroup.
  void SetPluginCgroup(std::uint64_t cgroup);
  void SetStuck(std::uint32_t stuck);
  // Makes a cgroup of this id at `path`.
  void PutCgroup(std::uint64_t id, const std::string& path);
  // Returns the id of the last mount that was handed out.
  std::uint64_t last_handed_out() const;
  // Takes the unique id from mounts that are handed out from now on.
  void TakeUniqueIds();
  // Adds a process that uses the mount, in the cgroup or in none (0).
  void AddHolder(std::uint64_t mount_id, const Holder& holder,
                 std::uint64_t cgroup = 0);
  // Adds a process that is in the network namespace.
  void AddToNamespace(std::uint64_t netns_inode, const Holder& holder);
  // Adds a process, in the cgroup or in none (0), with a copy of its own of the
  // mount (0: of none) or of the volumes that the plugin published ("": of
  // none).
  void AddCopy(std::uint64_t mount_id, const std::string& plugin,
               const Holder& holder, std::uint64_t cgroup = 0);
  // Ends all processes that use, are in, or have copies of, anything.
  void EndProcesses();
  // Makes searches for processes incomplete, or ends that.
  void SetBlind(bool blind);
  // Sets the process that every pidfd stands for, and the mounts that it sees,
  // by our ids.
  void SetTask(std::uint64_t cgroup, bool own_user_namespace = false);
  void SetTaskMount(std::uint64_t mount_id, const TaskMount& seen);
  // Makes a socket of the host listen on the port, for these protocols. A plan
  // that names a keeper takes the port all the same.
  void PutHostSocket(std::uint16_t port,
                     std::uint8_t protocols = kAllProtocols);
  // Makes links outlive DeleteNetwork until EndLinks.
  void KeepLinks();
  void EndLinks();
  // Returns the text of "web/2", the number by NetworkFileKind; "" if there is
  // no such file.
  std::string NetworkFileText(const std::string& file) const;
  // Remove the namespace or a link of an allocation, as another program would.
  void TakeNamespace(const std::string& allocation);
  void TakeLink(const std::string& address);
  // Sends a message of the kernel to the watch of that kind.
  void TellNetworks(NetworkWatchKind kind, std::span<const std::byte> message);
  // Ends the watch: it gets no messages any more.
  void BreakNetworkWatch(NetworkWatchKind kind);
  // Makes the watches that are opened from now on report lost messages.
  void OverflowNetworkWatches();
  // Sets the JSON result of later ADDs. The default is one address.
  void SetCniResult(const std::string& json);
  // Adds a network; `reason` says why it cannot be used.
  void PutCniNetwork(const std::string& network, const std::string& reason,
                     bool has_status = false);
  // Adds a plugin besides "fake".
  void PutCniPlugin(const std::string& type, const std::string& release);
  // Makes CHECK report that the attachment is gone.
  void BreakCni(const std::string& attachment);
  // Returns the requests that came, in order.
  std::vector<std::string> cni_requests() const;
  // Gives the next trees so many entries. Each plan removes one entry.
  void SetTree(std::uint64_t entries);
  // Sets fs.mount-max.
  void SetMostMounts(std::uint64_t most);
  // Sets the number of mounts that the plugin has below its directory from now
  // on.
  void SetPluginMounts(const std::string& plugin, std::uint64_t count);
  // Sets the health of the file system that the source's mounts show. Each
  // source is a file system of its own. The next attach of a dead "file system
  // <name>" mounts it again, healthy.
  void SetHealth(const std::string& source, MountHealth health);
  // Drops the events of the mount watch while it is set. Its end writes one
  // overflow event to the watch.
  void OverflowWatch(bool overflows);
  // Ends the mount watch: it gets no events any more.
  void BreakWatch();
  // Sets whether mount watches from now on report ids. Without ids they act as
  // before Linux 6.15: they report that something has changed, until the mounts
  // are listed.
  void SetTellsIds(bool tells);
  // Gives allocations' directories the access that mountd gave them when it let
  // groups pass.
  void ForgetWhoPasses();
  // Makes the next list of the mounts lack an id that its count includes.
  void CutOffNextList();

  std::uint32_t stuck() const override;
  Result<HelloReply> Hello() override;
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
  template <typename R, typename F>
  R Run(PlanKind kind, const std::string& method, const std::string& object,
        const PlanBody& body, const F& effect);
  MountState NewMountLocked();
  Result<Mount> CloneLocked(const AttachPlan& plan);
  Result<MountState> AttachLocked(const AttachPlan& plan);
  Result<void> SweepLocked(const std::string& id);
  // True if an earlier plan has made all that this plan would make.
  bool IsMadeLocked(const NetworkPlan& plan) const;
  Result<void> CheckNetworkLocked(const NetworkPlan& plan) const;
  Result<void> CheckHostPortsLocked(const NetworkPlan& plan) const;
  NetworkPlan KeepFreePortsLocked(NetworkPlan plan) const;
  NetworkState StateLocked(const NetworkPlan& plan) const;
  bool AnyBelowLocked(const std::string& directory) const;
  Result<CgroupState> CgroupLocked(std::uint64_t id) const;
  HandedOutMount HandedOutLocked();

  std::string AnswerCniLocked(const CniPlan& plan, const std::string& request);
  // Writes an event to the mount watch.
  void TellLocked(std::uint64_t mount_id, bool attached);

  CallScript<Error> script_;
  mutable std::mutex mutex_;
  std::vector<Request> plans_;
};

template <typename R, typename F>
R FakeExecutor::Run(PlanKind kind, const std::string& method,
                    const std::string& object, const PlanBody& body,
                    const F& effect) {
  {
    const std::lock_guard lock(mutex_);
    Request& request = plans_.emplace_back();
    request.kind = kind;
    request.body = body;
  }
  return script_.Run<R>(method, object, [&]() -> R {
    const std::lock_guard lock(mutex_);
    return effect();
  });
}

}  // namespace mountd::exec
