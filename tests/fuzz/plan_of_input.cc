// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/fuzz/plan_of_input.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>
#include <string_view>

#include "mountd/plan/message.h"
#include "mountd/plan/wire.h"
#include "netns/address/address.h"

namespace mountd::fuzz {
namespace {

using namespace exec;  // NOLINT(google-build-using-namespace)

constexpr PlanKind kKinds[] = {
    PlanKind::kHello,
    PlanKind::kPrepareBase,
    PlanKind::kPrepareAllocation,
    PlanKind::kRemoveAllocation,
    PlanKind::kAttach,
    PlanKind::kDetach,
    PlanKind::kInspectTarget,
    PlanKind::kReleaseAnchor,
    PlanKind::kPrepareInbox,
    PlanKind::kRemoveInbox,
    PlanKind::kOpenInbox,
    PlanKind::kOpenTree,
    PlanKind::kPreparePlugin,
    PlanKind::kRemovePlugin,
    PlanKind::kConnectPlugin,
    PlanKind::kPrepareVolumeDir,
    PlanKind::kInspectVolumeDir,
    PlanKind::kRemoveVolumeDir,
    PlanKind::kPrepareNetworks,
    PlanKind::kCreateNetwork,
    PlanKind::kDeleteNetwork,
    PlanKind::kInspectNetwork,
    PlanKind::kRepairNetwork,
    PlanKind::kWatchNetworks,
    PlanKind::kWriteNetworkFile,
    PlanKind::kRemoveNetworkFiles,
    PlanKind::kRunCni,
    PlanKind::kInspectCgroup,
    PlanKind::kFindHolders,
    PlanKind::kInspectTask,
    PlanKind::kVerifyTask,
    PlanKind::kRemoveTree,
    PlanKind::kChownTree,
    PlanKind::kWatchMounts,
    PlanKind::kListMounts,
    PlanKind::kProbeMount,
    PlanKind::kProbeVolume,
    PlanKind::kCountMounts,
    PlanKind::kInspectPluginSocket,
    PlanKind::kRemovePluginSocket,
    PlanKind::kStartPlugin,
    PlanKind::kStopPlugin,
    PlanKind::kListTargets,
    PlanKind::kListNetworks,
    PlanKind::kFindProcesses,
    PlanKind::kCheckHostPorts,
    PlanKind::kFindCopies,
    PlanKind::kOpenNamespace,
    PlanKind::kStopTasks,
    PlanKind::kUpdatePorts,
};

constexpr std::string_view kVolume = "0123456789abcdef0123456789abcdef";
// The ids are the first that the kernel in memory gives to mounts and
// namespaces.
constexpr std::uint64_t kFirstMount = 0x80000101;
constexpr std::uint64_t kCgroup = 4242;
constexpr std::uint32_t kCallersPid = 300;
constexpr std::uint64_t kGivenNetns = 4026532600;

// The usual name comes first, so a zero byte means it.
WireName NameOf(Input* input, std::string_view usual, std::string_view other) {
  constexpr std::string_view kOdd[] = {"..", ".", "a/b", "", "md0a580001"};
  const std::uint8_t which = input->Byte();
  if (which < 128) {
    return ToWire(usual);
  }
  return which < 224 ? ToWire(other) : ToWire(kOdd[which % std::size(kOdd)]);
}

WireName Allocation(Input* input) { return NameOf(input, "web", "db"); }
WireName Plugin(Input* input) { return NameOf(input, "local", "nfs"); }

TargetPlan TargetOf(Input* input) {
  TargetPlan target;
  target.allocation = Allocation(input);
  target.task = NameOf(input, "server", "sidecar");
  target.name = NameOf(input, "data", "cache");
  return target;
}

std::uint64_t MountId(Input* input) { return kFirstMount + input->Byte(); }

CallerPlan Caller(Input* input) {
  constexpr std::uint32_t kUsers[] = {1000, 1001, 0, 1002};
  CallerPlan caller;
  caller.uid = input->OneOf(kUsers);
  caller.gid_count = 1;
  caller.gids[0] = caller.uid;
  return caller;
}

void SetVolume(std::array<char, VolumeKey::kHexDigits>* volume) {
  std::copy_n(kVolume.begin(), volume->size(), volume->begin());
}

SourcePlan Source(Input* input) {
  constexpr SourceKind kSources[] = {
      SourceKind::kHostVolume, SourceKind::kPublishedVolume, SourceKind::kTmpfs,
      SourceKind::kFilesystem};
  constexpr std::string_view kVolumes[] = {"data", "ro", "file", "none"};
  constexpr std::string_view kFilesystems[] = {"images", "disk", "none"};
  SourcePlan source;
  source.kind = input->OneOf(kSources);
  source.host_volume = ToWire(input->OneOf(kVolumes));
  source.filesystem = ToWire(input->OneOf(kFilesystems));
  source.plugin = Plugin(input);
  SetVolume(&source.volume);
  source.tmpfs = {1U << 20U, 1024, 01777, 1000, 1000, input->Byte() & 1U};
  return source;
}

Propagation PropagationOf(Input* input) {
  constexpr Propagation kAll[] = {Propagation::kPrivate,
                                  Propagation::kHostToTask,
                                  Propagation::kBidirectional};
  return input->OneOf(kAll);
}

void SetAttach(Input* input, AttachPlan* plan) {
  constexpr TargetKind kTargets[] = {TargetKind::kInbox, TargetKind::kDirectory,
                                     TargetKind::kContainer};
  plan->target = TargetOf(input);
  plan->target_kind = input->OneOf(kTargets);
  plan->caller = Caller(input);
  plan->container = Container(kCgroup, "/container/dir", kCallersPid);
  if (input->Flag()) {
    plan->container = Container(kCgroup, "/container/file", kCallersPid);
  }
  plan->source = Source(input);
  plan->propagation = PropagationOf(input);
  plan->attributes = input->Byte() & kAllAttributes;
  if (input->Flag()) {
    plan->ids.count = 1;
    plan->ids.extents[0] = {100'000, 1000, 65'536};
  }
  plan->replaces = input->Flag() ? MountId(input) : 0;
  // Last, so that older inputs mean what they meant.
  if (input->Flag()) {
    plan->ids.count = 1;
    plan->ids.extents[0] = {plan->caller.uid, 2000, 1};
    plan->ids.gid_count = 1;
    plan->ids.gids[0] = {input->Flag() ? plan->caller.gids[0] : 1003U, 2000, 1};
  }
  if (input->Flag()) {
    plan->ids = {};
    plan->ids.count = 1;
    plan->ids.extents[0] = {0, input->Flag() ? plan->caller.uid : 1003U, 1};
  }
  if (input->Flag()) {
    plan->source.kind = SourceKind::kDirectory;
    plan->target_kind =
        input->Flag() ? TargetKind::kDirectory : TargetKind::kInbox;
  }
}

void SetNetwork(Input* input, NetworkPlan* plan) {
  constexpr NamespaceOrigin kOrigins[] = {NamespaceOrigin::kNew,
                                          NamespaceOrigin::kGiven,
                                          NamespaceOrigin::kExisting};
  constexpr std::uint64_t kMade = 4026533000;
  plan->allocation = Allocation(input);
  plan->network = NameOf(input, "bridge", "other");
  plan->interface = {'e', 't', 'h', '0'};
  plan->ipv4 = {10, 88, 0, static_cast<std::uint8_t>(2 + input->Byte() % 4)};
  if (input->Flag()) {
    plan->ipv6 = {0xfd, 0x88};
    plan->ipv6.back() = plan->ipv4.back();
  }
  const std::uint8_t addresses = input->Byte() % 8;
  if (addresses == 6 && !mountd::netns::IsNone(plan->ipv6)) {
    plan->ipv4 = {};  // IPv6 alone
  }
  if (addresses == 7) {
    const WireName allocation = plan->allocation;
    *plan = NetworkPlan{};
    plan->allocation = allocation;
  }
  plan->origin = input->OneOf(kOrigins);
  plan->flags = input->Byte() & kAllNetworkFlags;
  plan->port_count = static_cast<std::uint32_t>(input->UpTo(3));
  for (std::uint32_t i = 0; i < plan->port_count; ++i) {
    PortMap& port = plan->ports.at(i);
    port.host_port = static_cast<std::uint16_t>(8000 + input->Byte());
    port.container_port = 80;
    port.protocols = 1 + input->Byte() % 7;
    port.if_free = port.protocols & kUdp;
    port.count = static_cast<std::uint16_t>(1 + input->UpTo(3));
    port.host_family = input->Flag() ? 4 : 0;
    port.host_address[0] = port.host_family == 4 ? 127 : 0;
  }
  const std::uint8_t which = input->Byte();
  plan->netns_inode = which == 0                                ? 0
                      : plan->origin == NamespaceOrigin::kGiven ? kGivenNetns
                                                                : kMade + which;
  plan->owner_uid = 1000;
  plan->may_be_hosts = input->Byte() & 1U;
  plan->has_keeper = plan->may_be_hosts;
  plan->port_count = mountd::netns::HasAddress(*plan) ? plan->port_count : 0;
  plan->flags = mountd::netns::HasAddress(*plan) ? plan->flags : 0;
  plan->has_keeper = mountd::netns::HasAddress(*plan) ? plan->has_keeper : 0;
}

void SetVolumeDir(Input* input, VolumeDirPlan* plan) {
  plan->plugin = Plugin(input);
  plan->area = input->Flag() ? VolumeArea::kPublish : VolumeArea::kStaging;
  plan->allocation = Allocation(input);
  SetVolume(&plan->volume);
  plan->detach = plan->area == VolumeArea::kPublish ? input->Byte() & 1U : 0;
}

void SetMountBody(Input* input, Request* request) {
  PlanBody& body = request->body;
  switch (request->kind) {
    case PlanKind::kPrepareAllocation:
    case PlanKind::kRemoveAllocation:
      body.allocation = {Allocation(input), 1000U};
      if (input->Flag()) {
        body.allocation.group = input->Flag() ? 100'000U : 99'999U;
      }
      break;
    case PlanKind::kAttach:
      body.attach = AttachPlan{};
      SetAttach(input, &body.attach);
      break;
    case PlanKind::kDetach:
      body.detach = {TargetOf(input), MountId(input),
                     static_cast<UnmountMode>(input->Byte() % 4)};
      break;
    case PlanKind::kInspectTarget:
      body.target = TargetOf(input);
      break;
    case PlanKind::kProbeMount:
      body.probe = {TargetOf(input), MountId(input)};
      break;
    case PlanKind::kReleaseAnchor:
      body.anchor = AnchorPlan{};
      body.anchor.kind =
          input->Flag() ? SourceKind::kFilesystem : SourceKind::kHostVolume;
      body.anchor.source = body.anchor.kind == SourceKind::kFilesystem
                               ? NameOf(input, "images", "disk")
                               : NameOf(input, "data", "ro");
      body.anchor.anchor_id = input->Flag() ? MountId(input) : 0;
      break;
    case PlanKind::kPrepareInbox:
    case PlanKind::kRemoveInbox:
    case PlanKind::kOpenInbox:
      body.task = {Allocation(input), NameOf(input, "server", "sidecar")};
      break;
    default:
      body.open_tree = OpenTreePlan{};
      body.open_tree.allocation = Allocation(input);
      body.open_tree.source = Source(input);
      body.open_tree.propagation = PropagationOf(input);
      body.open_tree.attributes = input->Byte() & kAllAttributes;
      break;
  }
}

void SetOtherBody(Input* input, Request* request) {
  PlanBody& body = request->body;
  switch (request->kind) {
    case PlanKind::kHello:
    case PlanKind::kPrepareBase:
    case PlanKind::kInspectTask:
    case PlanKind::kWatchMounts:
    case PlanKind::kListMounts:
    case PlanKind::kListTargets:
    case PlanKind::kListNetworks:
      break;
    case PlanKind::kConnectPlugin:
    case PlanKind::kInspectPluginSocket:
    case PlanKind::kRemovePluginSocket:
      body.plugin_socket = PluginSocketPlan{};
      body.plugin_socket.plugin = Plugin(input);
      body.plugin_socket.instance.fill(input->Flag() ? 'a' : '0');
      body.plugin_socket.cgroup = input->Flag() ? kCgroup : 0;
      break;
    case PlanKind::kPrepareVolumeDir:
    case PlanKind::kInspectVolumeDir:
    case PlanKind::kRemoveVolumeDir:
      body.volume_dir = VolumeDirPlan{};
      SetVolumeDir(input, &body.volume_dir);
      break;
    case PlanKind::kProbeVolume:
      body.volume_probe = VolumeProbePlan{};
      SetVolumeDir(input, &body.volume_probe.directory);
      body.volume_probe.mount_id = input->Flag() ? MountId(input) : 0;
      break;
    case PlanKind::kCreateNetwork:
    case PlanKind::kDeleteNetwork:
    case PlanKind::kInspectNetwork:
    case PlanKind::kRepairNetwork:
    case PlanKind::kCheckHostPorts:
      body.network = NetworkPlan{};
      SetNetwork(input, &body.network);
      break;
    case PlanKind::kUpdatePorts: {
      PortsPlan ports;
      SetNetwork(input, &ports.network);
      NetworkPlan old;
      SetNetwork(input, &old);
      ports.network.origin = NamespaceOrigin::kExisting;
      ports.network.may_be_hosts = 0;
      ports.network.has_keeper = 0;
      ports.old_count = old.port_count;
      ports.old_ports = old.ports;
      body.ports = ports;
      break;
    }
    case PlanKind::kOpenNamespace:
      body.network = NetworkPlan{};
      body.network.allocation = Allocation(input);
      body.network.origin = NamespaceOrigin::kExisting;
      body.network.netns_inode = kGivenNetns + (input->Byte() & 1U);
      break;
    case PlanKind::kPrepareNetworks:
      body.prepare_networks = {input->Byte() & 1U};
      break;
    case PlanKind::kWatchNetworks:
      body.network_watch = {input->Flag() ? NetworkWatchKind::kRuleset
                                          : NetworkWatchKind::kLinks};
      break;
    case PlanKind::kWriteNetworkFile:
    case PlanKind::kRemoveNetworkFiles:
      body.network_file = {Allocation(input), 1000U,
                           static_cast<NetworkFileKind>(1 + input->Byte() % 3)};
      break;
    case PlanKind::kRunCni:
      body.cni = {static_cast<CniVerb>(1 + input->Byte() % 6),
                  Allocation(input), NameOf(input, "net", "bridge"),
                  4026532600U};
      break;
    case PlanKind::kInspectCgroup:
      body.cgroup = {kCgroup + (input->Byte() & 1U)};
      break;
    case PlanKind::kFindHolders:
      body.holders = {MountId(input),
                      input->Flag() ? HolderScope::kNode : HolderScope::kCgroup,
                      100, kCgroup};
      if (input->Flag()) {
        body.holders.mount_id = 0;
        body.holders.scope = HolderScope::kNode;
        body.holders.count = 2;
        body.holders.handed_out[0] = {MountId(input), MountId(input), 1};
        body.holders.handed_out[1] = {MountId(input), MountId(input), 2};
      }
      break;
    case PlanKind::kFindCopies:
      body.copies = CopiesPlan{};
      body.copies.scope =
          input->Flag() ? HolderScope::kNode : HolderScope::kCgroup;
      body.copies.budget_ms = 100;
      body.copies.cgroup = input->Flag() ? 0 : kCgroup;
      if (input->Flag()) {
        body.copies.count = 1;
        body.copies.mount_ids[0] = MountId(input);
      } else {
        body.copies.has_volume = 1;
        SetVolumeDir(input, &body.copies.volume);
        body.copies.volume.area = VolumeArea::kPublish;
      }
      break;
    case PlanKind::kFindProcesses:
      body.processes = {input->Flag() ? 0 : kCgroup,
                        input->Flag() ? kGivenNetns : 0, 100};
      break;
    case PlanKind::kStopTasks:
      body.stop_tasks = {input->Flag() ? 0 : kCgroup,
                         input->Flag() ? TaskStop::kKill : TaskStop::kFreeze,
                         20, Caller(input)};
      break;
    case PlanKind::kVerifyTask:
      body.verify_task = VerifyTaskPlan{};
      body.verify_task.cgroup = kCgroup;
      body.verify_task.count = 1;
      body.verify_task.mount_ids[0] = MountId(input);
      break;
    case PlanKind::kRemoveTree:
    case PlanKind::kChownTree:
      body.tree = TreePlan{};
      body.tree.caller = Caller(input);
      body.tree.uid = input->Flag() ? 100'000U : body.tree.caller.uid;
      body.tree.gid = body.tree.uid;
      body.tree.depth = static_cast<std::uint32_t>(input->UpTo(3));
      for (std::size_t i = 0; i < body.tree.depth; ++i) {
        body.tree.after.at(i) = input->Take<std::uint64_t>();
      }
      break;
    default:
      body.plugin = {Plugin(input)};
      break;
  }
}

Request RequestOf(Input* input) {
  Request request;
  request.kind = input->OneOf(kKinds);
  // The whole body is cleared, so that no byte is random.
  std::memset(static_cast<void*>(&request.body), 0, sizeof(request.body));
  switch (request.kind) {
    case PlanKind::kPrepareAllocation:
    case PlanKind::kRemoveAllocation:
    case PlanKind::kAttach:
    case PlanKind::kDetach:
    case PlanKind::kInspectTarget:
    case PlanKind::kProbeMount:
    case PlanKind::kReleaseAnchor:
    case PlanKind::kPrepareInbox:
    case PlanKind::kRemoveInbox:
    case PlanKind::kOpenInbox:
    case PlanKind::kOpenTree:
      SetMountBody(input, &request);
      break;
    default:
      SetOtherBody(input, &request);
      break;
  }
  return request;
}

// Returns the kind of fd that such a plan takes.
std::uint8_t FdFor(const Request& request) {
  switch (request.kind) {
    case PlanKind::kAttach:
      return request.body.attach.target_kind == TargetKind::kContainer ? 1 : 0;
    case PlanKind::kCreateNetwork:
      return 3;
    case PlanKind::kInspectTask:
    case PlanKind::kVerifyTask:
    case PlanKind::kCheckHostPorts:
      return 1;
    case PlanKind::kWriteNetworkFile:
    case PlanKind::kRunCni:
      return 2;
    default:
      return 0;
  }
}

void WriteOver(Input* input, std::vector<std::byte>* message) {
  for (std::size_t left = input->UpTo(3); left > 0; --left) {
    const std::size_t at = input->Take<std::uint16_t>() % message->size();
    const std::string_view bytes = input->Bytes(1 + input->UpTo(7));
    for (std::size_t i = 0; i < bytes.size() && at + i < message->size(); ++i) {
      message->at(at + i) = static_cast<std::byte>(bytes[i]);
    }
  }
}

PlanOfInput PlanOf(Input* input) {
  PlanOfInput plan;
  const Request request = RequestOf(input);
  const auto bytes = std::as_bytes(std::span(&request, 1));
  plan.message.assign(bytes.begin(), bytes.end());
  plan.fds.assign(FdsOf(request), FdFor(request));
  if (request.kind == PlanKind::kCreateNetwork &&
      request.body.network.has_keeper != 0) {
    plan.fds.back() = 1;
  }
  const std::uint8_t odd = input->Byte();
  plan.peer_is_gone = (odd & 1U) != 0;
  if ((odd & 2U) != 0) {
    WriteOver(input, &plan.message);
  }
  if ((odd & 4U) != 0) {
    for (std::uint8_t& fd : plan.fds) {
      fd = static_cast<std::uint8_t>(fd + 4U * input->Byte());
    }
  }
  if ((odd & 128U) != 0) {
    plan.others = input->Byte();
  }
  if ((odd & 24U) == 24U) {
    plan.fds.resize(input->UpTo(3), input->Byte());
  }
  if ((odd & 96U) == 96U) {
    plan.message.resize(plan.message.size() - 64 + input->UpTo(128));
  }
  return plan;
}

}  // namespace

std::vector<PlanOfInput> PlansOf(Input* input) {
  std::vector<PlanOfInput> plans;
  const std::size_t count = 1 + input->UpTo(7);
  for (std::size_t i = 0; i < count; ++i) {
    plans.push_back(PlanOf(input));
  }
  return plans;
}

}  // namespace mountd::fuzz
