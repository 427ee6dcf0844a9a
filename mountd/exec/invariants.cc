// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/exec/invariants.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>

#include "mountd/config/id_grants.h"
#include "mountd/exec/invariants_network.h"
#include "mountd/plan/container_path.h"
#include "mountd/plan/plan_ids.h"
#include "mountd/plan/request_size.h"

namespace mountd::exec {
namespace {

Result<void> CheckKey(const std::array<char, VolumeKey::kHexDigits>& key,
                      const char* field) {
  // The key becomes a part of a path.
  const bool hex = std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
  return hex ? Ok() : Result<void>(Invalid(field, "is not a volume key"));
}

// Refuses a group that no rule's `ids` contain, because every process of the
// group may pass through the allocation's directory. No rule's `ids` contain
// root's group.
Result<void> CheckAllocation(const AllocationPlan& plan, const Config& config) {
  MOUNTD_TRY(CheckName(plan.allocation, "allocation"));
  const bool granted = std::any_of(
      config.rules.begin(), config.rules.end(),
      [&](const RuleConfig& rule) { return Contains(rule.ids, plan.group); });
  return plan.group == 0 || granted
             ? Ok()
             : Result<void>(Invalid("group",
                                    "no rule grants it; add it to ids in "
                                    "mountd.toml"));
}

Result<void> CheckTarget(const TargetPlan& plan) {
  MOUNTD_TRY(CheckName(plan.allocation, "allocation"));
  MOUNTD_TRY(CheckName(plan.task, "task"));
  return CheckName(plan.name, "name");
}

Result<void> CheckTmpfs(const TmpfsPlan& tmpfs, const Config& config) {
  if (tmpfs.bytes < kMinTmpfsBytes || tmpfs.bytes > config.limits.tmpfs_bytes) {
    return Invalid("tmpfs bytes");
  }
  if (tmpfs.inodes == 0 || tmpfs.inodes > tmpfs.bytes / kTmpfsBytesPerInode) {
    return Invalid("tmpfs inodes");
  }
  if ((tmpfs.mode & ~kTmpfsModes) != 0) {
    return Invalid("tmpfs mode");
  }
  // kNoId is no user, because chown(2) reads it as "leave it unchanged".
  if (tmpfs.uid == kNoId || tmpfs.gid == kNoId) {
    return Invalid("tmpfs owner");
  }
  return tmpfs.no_swap <= 1 ? Ok() : Result<void>(Invalid("tmpfs no_swap"));
}

Result<void> CheckSource(const SourcePlan& plan, const Config& config) {
  switch (plan.kind) {
    case SourceKind::kHostVolume:
      return CheckName(plan.host_volume, "host volume");
    case SourceKind::kPublishedVolume:
      MOUNTD_TRY(CheckName(plan.plugin, "plugin"));
      return CheckKey(plan.volume, "volume");
    case SourceKind::kFilesystem:
      return CheckName(plan.filesystem, "file system");
    case SourceKind::kTmpfs:
      return CheckTmpfs(plan.tmpfs, config);
    case SourceKind::kDirectory:  // the fd says which
      return Ok();
  }
  return Invalid("source kind");
}

Result<void> CheckAttributes(std::uint32_t attributes) {
  return (attributes & ~kAllAttributes) == 0
             ? Ok()
             : Result<void>(Invalid("attributes", "has unknown bits"));
}

Result<void> CheckCaller(const CallerPlan& plan) {
  return plan.gid_count <= plan.gids.size()
             ? Ok()
             : Result<void>(Invalid("gid count"));
}

// Lets a caller mount over any path of its own container except below the
// kernel's interfaces there, because those confine the container.
Result<void> CheckContainer(const ContainerPlan& plan) {
  if (plan.cgroup == 0) {
    return Invalid("cgroup");
  }
  if (plan.caller == 0) {
    return Invalid("caller");
  }
  if (plan.path.back() != '\0') {
    return Invalid("path", "is too long");
  }
  const std::string_view fault = FaultOfContainerPath(plan.path.data());
  return fault.empty() ? Ok()
                       : Result<void>(Invalid("path", std::string(fault)));
}

Result<void> CheckTargetKind(const AttachPlan& plan) {
  switch (plan.target_kind) {
    case TargetKind::kInbox:
      return Ok();
    case TargetKind::kDirectory:
      MOUNTD_TRY(CheckCaller(plan.caller));
      return plan.replaces == 0
                 ? Ok()
                 : Result<void>(
                       Invalid("replaces", "is possible only in an inbox"));
    case TargetKind::kContainer:
      MOUNTD_TRY(CheckContainer(plan.container));
      return plan.replaces == 0
                 ? Ok()
                 : Result<void>(
                       Invalid("replaces", "is possible only in an inbox"));
  }
  return Invalid("target kind");
}

// Checks a file system that is made for this mount alone. The mount must be
// private, because no other mount shares its file system. The mount must not
// replace another mount, because after a swap that was cut off the executor
// could not tell one tmpfs from the other.
Result<void> CheckNew(const AttachPlan& plan) {
  if (plan.replaces != 0) {
    return Invalid("replaces", "is not possible with a tmpfs");
  }
  return plan.propagation == Propagation::kPrivate
             ? Ok()
             : Result<void>(
                   Invalid("propagation", "must be private for a tmpfs"));
}

IdsSource IdsSourceOf(const AttachPlan& plan) {
  return {plan.source.kind,
          plan.source.kind == SourceKind::kHostVolume
              ? plan.source.host_volume.view()
              : plan.source.plugin.view(),
          (plan.attributes & kReadOnly) != 0};
}

// Checks a mount of a caller's own directory. The target must be in an inbox,
// because the plan's only fd is the directory. The mount must not replace
// another, because the directory may move, and then the swap cannot be undone.
// The mount must not be bidirectional, because the directory is on a mount of
// the host, and a task must not be a peer of that mount.
Result<void> CheckDirectorySource(const AttachPlan& plan) {
  if (plan.target_kind != TargetKind::kInbox) {
    return Invalid("target kind", "must be an inbox for a directory");
  }
  if (plan.replaces != 0) {
    return Invalid("replaces", "is not possible with a directory");
  }
  if (plan.propagation == Propagation::kBidirectional) {
    return Invalid("propagation", "cannot be bidirectional for a directory");
  }
  return CheckCaller(plan.caller);
}

// Returns the user whose own ids the plan may map. This is the caller if some
// rule names it, and nobody otherwise. The executor relies on mountd to name
// the real caller.
IdsOwner OwnerOf(const AttachPlan& plan, const Config& config) {
  const auto gids = std::span(plan.caller.gids).first(plan.caller.gid_count);
  const IdsSource source = IdsSourceOf(plan);
  IdsOwner owner;
  for (const RuleConfig& rule : config.rules) {
    if (Applies(rule, plan.caller.uid, gids)) {
      owner.uid = plan.caller.uid;
      owner.gid = gids.empty() ? 0U : gids.front();
      owner.root_as_caller |= GrantsRoot(rule, source);
    }
  }
  return owner;
}

// Refuses ids that neither are the caller's own nor granted by any rule. No
// rule's ids contain root's. With root_as_caller, root's files can show as the
// caller's. Such a mount must be private, because mounts that propagate into it
// later would show their files in the same way.
Result<void> CheckIds(const AttachPlan& plan, const Config& config) {
  if (const std::string_view fault = FaultOf(plan.ids); !fault.empty()) {
    return Invalid("ids", std::string(fault));
  }
  if (plan.ids.count != 0 && plan.source.kind == SourceKind::kTmpfs) {
    return Invalid("ids", "cannot be mapped in a tmpfs");
  }
  MOUNTD_TRY(CheckCaller(plan.caller));
  const IdExtent* foreign =
      FindForeign(plan.ids, OwnerOf(plan, config), [&](const IdExtent& extent) {
        return std::any_of(
            config.rules.begin(), config.rules.end(),
            [&](const RuleConfig& rule) { return AllowsIds(rule, extent); });
      });
  if (foreign != nullptr) {
    return Invalid("ids",
                   "no rule grants these ids; add them to ids in mountd.toml");
  }
  return !ShowsRoot(plan.ids) || plan.propagation == Propagation::kPrivate
             ? Ok()
             : Result<void>(
                   Invalid("propagation", "must be private with root's ids"));
}

Result<void> CheckAttach(const AttachPlan& plan, const Config& config) {
  MOUNTD_TRY(CheckTarget(plan.target));
  MOUNTD_TRY(CheckTargetKind(plan));
  MOUNTD_TRY(CheckSource(plan.source, config));
  if (plan.source.kind == SourceKind::kTmpfs) {
    MOUNTD_TRY(CheckNew(plan));
  }
  if (plan.source.kind == SourceKind::kDirectory) {
    MOUNTD_TRY(CheckDirectorySource(plan));
  }
  MOUNTD_TRY(CheckIds(plan, config));
  MOUNTD_TRY(CheckAttributes(plan.attributes));
  switch (plan.propagation) {
    case Propagation::kPrivate:
    case Propagation::kHostToTask:
      return Ok();
    case Propagation::kBidirectional:
      return (plan.attributes & kReadOnly) == 0
                 ? Ok()
                 : Result<void>(Invalid("propagation",
                                        "bidirectional cannot be read-only"));
  }
  return Invalid("propagation");
}

Result<void> CheckOpenTree(const OpenTreePlan& plan, const Config& config) {
  MOUNTD_TRY(CheckName(plan.allocation, "allocation"));
  MOUNTD_TRY(CheckSource(plan.source, config));
  MOUNTD_TRY(CheckAttributes(plan.attributes));
  if (plan.source.kind == SourceKind::kTmpfs) {
    // Such a tmpfs would live as long as somebody keeps an fd of it, so no
    // limit would bound the memory of all of them.
    return Invalid("source kind", "a tmpfs cannot be opened as an fd");
  }
  if (plan.source.kind == SourceKind::kDirectory) {
    return Invalid("source kind", "a directory is the caller's already");
  }
  if ((plan.attributes & kReadOnly) != 0) {
    return Invalid("attributes", "read-only is not possible for an fd");
  }
  const bool allowed = plan.propagation == Propagation::kPrivate ||
                       plan.propagation == Propagation::kHostToTask;
  return allowed ? Ok() : Result<void>(Invalid("propagation"));
}

Result<void> CheckAnchor(const AnchorPlan& plan) {
  if (plan.kind != SourceKind::kHostVolume &&
      plan.kind != SourceKind::kFilesystem) {
    return Invalid("source kind", "has no anchor");
  }
  return CheckName(plan.source, "source");
}

Result<void> CheckPluginSocket(const PluginSocketPlan& plan) {
  MOUNTD_TRY(CheckName(plan.plugin, "plugin"));
  const bool valid =
      InstanceKey::Parse({plan.instance.data(), plan.instance.size()})
          .has_value();
  return valid ? Ok() : Result<void>(Invalid("instance"));
}

Result<void> CheckVolumeDir(const VolumeDirPlan& plan) {
  MOUNTD_TRY(CheckName(plan.plugin, "plugin"));
  MOUNTD_TRY(CheckKey(plan.volume, "volume"));
  switch (plan.area) {
    case VolumeArea::kStaging:
      return plan.detach == 0 ? Ok() : Result<void>(Invalid("detach"));
    case VolumeArea::kPublish:
      return plan.detach <= 1 ? CheckName(plan.allocation, "allocation")
                              : Result<void>(Invalid("detach"));
  }
  return Invalid("area");
}

Result<void> CheckHolders(const HoldersPlan& plan) {
  if ((plan.mount_id != 0) == (plan.count != 0)) {
    return Invalid("mount id");
  }
  // Any process of the node may have received such a descriptor, so only a
  // search of all processes finds the mount's holders.
  if (plan.count > kMaxHandedOut ||
      (plan.count != 0 && plan.scope != HolderScope::kNode)) {
    return Invalid("count");
  }
  if (plan.budget_ms == 0 || plan.budget_ms > kMaxHolderBudgetMs) {
    return Invalid("budget");
  }
  switch (plan.scope) {
    case HolderScope::kCgroup:
      return plan.cgroup != 0 ? Ok() : Result<void>(Invalid("cgroup"));
    case HolderScope::kNode:
      return Ok();
  }
  return Invalid("scope");
}

Result<void> CheckProcesses(const ProcessesPlan& plan) {
  if (plan.cgroup == 0 && plan.netns_inode == 0) {
    return Invalid("cgroup");
  }
  return plan.budget_ms != 0 && plan.budget_ms <= kMaxHolderBudgetMs
             ? Ok()
             : Result<void>(Invalid("budget"));
}

template <std::size_t kSize>
bool HasEnd(const std::array<char, kSize>& text) {
  return std::find(text.begin(), text.end(), '\0') != text.end();
}

Result<void> CheckCopies(const CopiesPlan& plan) {
  if (plan.count > plan.mount_ids.size() ||
      (plan.count != 0) == (plan.has_volume != 0)) {
    return Invalid("count");
  }
  if (plan.budget_ms == 0 || plan.budget_ms > kMaxHolderBudgetMs) {
    return Invalid("budget");
  }
  // A plan without a cgroup asks only which file system a volume is on.
  if (plan.scope != HolderScope::kNode &&
      (plan.scope != HolderScope::kCgroup ||
       (plan.cgroup == 0 && plan.has_volume == 0))) {
    return Invalid("scope");
  }
  if (plan.has_volume == 0) {
    return Ok();
  }
  if (!HasEnd(plan.before.type) || !HasEnd(plan.before.root) ||
      !HasEnd(plan.before.source)) {
    return Invalid("file system");
  }
  return plan.volume.area == VolumeArea::kPublish
             ? CheckVolumeDir(plan.volume)
             : Result<void>(Invalid("volume area"));
}

Result<void> CheckVerifyTask(const VerifyTaskPlan& plan) {
  if (plan.cgroup == 0) {
    return Invalid("cgroup");
  }
  return plan.count <= plan.mount_ids.size() ? Ok()
                                             : Result<void>(Invalid("count"));
}

Result<void> CheckTree(const Request& request) {
  const TreePlan& plan = request.body.tree;
  const bool changes_owner = request.kind == PlanKind::kChownTree;
  MOUNTD_TRY(CheckCaller(plan.caller));
  // gids[0] is the caller's primary group. Files that are given back to the
  // caller get this group.
  if (plan.caller.gid_count == 0) {
    return Invalid("gid count");
  }
  if (plan.depth > plan.after.size()) {
    return Invalid("depth");
  }
  // chown(2) reads this id as "leave it unchanged".
  constexpr std::uint32_t kNone = UINT32_MAX;
  return !changes_owner || (plan.uid != kNone && plan.gid != kNone)
             ? Ok()
             : Result<void>(Invalid("owner"));
}

// Each of the next functions checks the plans of one subject. Each function
// refuses every kind that it does not name, so that no plan runs without a
// check.

Result<void> CheckAloneRequest(const Request& request, const Config& config) {
  return request.kind == PlanKind::kHello
             ? Ok()
             : CheckNetworkRequest(request, config);
}

Result<void> CheckMountRequest(const Request& request, const Config& config) {
  const PlanBody& body = request.body;
  switch (request.kind) {
    case PlanKind::kPrepareBase:
      return Ok();
    case PlanKind::kPrepareAllocation:
      return CheckAllocation(body.allocation, config);
    case PlanKind::kRemoveAllocation:
      return CheckName(body.allocation.allocation, "allocation");
    case PlanKind::kAttach:
      return CheckAttach(body.attach, config);
    case PlanKind::kDetach:
      MOUNTD_TRY(CheckTarget(body.detach.target));
      return body.detach.mode <= UnmountMode::kAbort
                 ? Ok()
                 : Result<void>(Invalid("mode"));
    case PlanKind::kInspectTarget:
      return CheckTarget(body.target);
    case PlanKind::kReleaseAnchor:
      return CheckAnchor(body.anchor);
    case PlanKind::kOpenTree:
      return CheckOpenTree(body.open_tree, config);
    case PlanKind::kPrepareInbox:
    case PlanKind::kRemoveInbox:
    case PlanKind::kOpenInbox:
      MOUNTD_TRY(CheckName(body.task.allocation, "allocation"));
      return CheckName(body.task.task, "task");
    default:
      return CheckNetworkRequest(request, config);  // the network's files
  }
}

Result<void> CheckPluginRequest(const Request& request) {
  const PlanBody& body = request.body;
  switch (request.kind) {
    case PlanKind::kPreparePlugin:
    case PlanKind::kRemovePlugin:
    case PlanKind::kStartPlugin:  // StartPlugin looks it up in the config
    case PlanKind::kStopPlugin:
      return CheckName(body.plugin.plugin, "plugin");
    case PlanKind::kConnectPlugin:
    case PlanKind::kInspectPluginSocket:
    case PlanKind::kRemovePluginSocket:
      return CheckPluginSocket(body.plugin_socket);
    case PlanKind::kPrepareVolumeDir:
    case PlanKind::kInspectVolumeDir:
    case PlanKind::kRemoveVolumeDir:
      return CheckVolumeDir(body.volume_dir);
    default:
      return Invalid("kind");
  }
}

Result<void> CheckHealthRequest(const Request& request) {
  const PlanBody& body = request.body;
  switch (request.kind) {
    case PlanKind::kWatchMounts:
    case PlanKind::kListMounts:
    case PlanKind::kListTargets:
      return Ok();
    case PlanKind::kProbeMount:
      return CheckTarget(body.probe.target);
    case PlanKind::kProbeVolume:
      return CheckVolumeDir(body.volume_probe.directory);
    case PlanKind::kCountMounts:
      return CheckName(body.plugin.plugin, "plugin");
    default:
      return Invalid("kind");
  }
}

// Does not check rules. StopTasks checks them, because only it can read the
// cgroup's path. For a cgroup without processes it needs no rule.
Result<void> CheckStopTasks(const StopTasksPlan& plan) {
  if (plan.cgroup == 0) {
    return Invalid("cgroup");
  }
  if (plan.how != TaskStop::kFreeze && plan.how != TaskStop::kKill) {
    return Invalid("how");
  }
  if (plan.budget_ms == 0 || plan.budget_ms > kMaxStopBudgetMs) {
    return Invalid("budget");
  }
  return CheckCaller(plan.owner);
}

Result<void> CheckTaskRequest(const Request& request) {
  const PlanBody& body = request.body;
  switch (request.kind) {
    case PlanKind::kInspectCgroup:
      return body.cgroup.id != 0 ? Ok() : Result<void>(Invalid("cgroup"));
    case PlanKind::kInspectTask:  // has only its fd
      return Ok();
    case PlanKind::kFindHolders:
      return CheckHolders(body.holders);
    case PlanKind::kFindProcesses:
      return CheckProcesses(body.processes);
    case PlanKind::kFindCopies:
      return CheckCopies(body.copies);
    case PlanKind::kVerifyTask:
      return CheckVerifyTask(body.verify_task);
    case PlanKind::kStopTasks:
      return CheckStopTasks(body.stop_tasks);
    default:
      return Invalid("kind");
  }
}

// A message of the size of a whole Request is allowed for every kind.
bool HasSizeOfRequest(std::span<const std::byte> message) {
  return message.size() == sizeof(Request) ||
         message.size() == BytesOf(KindOf(message));
}

}  // namespace

Result<void> DecodeRequest(std::span<const std::byte> message,
                           Request* request) {
  if (!HasSizeOfRequest(message)) {
    return Invalid("message size");
  }
  // memcpy, because the message need not be aligned as a Request is.
  std::memcpy(request, message.data(), message.size());
  return request->version == kProtocolVersion
             ? Ok()
             : Result<void>(Invalid("version"));
}

PlanKind KindOf(std::span<const std::byte> message) {
  PlanKind kind = PlanKind::kHello;
  if (message.size() >= offsetof(Request, kind) + sizeof(kind)) {
    std::memcpy(&kind, message.data() + offsetof(Request, kind), sizeof(kind));
  }
  return kind;
}

PlanTrace TraceOf(std::span<const std::byte> message) {
  PlanTrace trace;
  if (HasSizeOfRequest(message)) {
    std::memcpy(&trace, message.data() + offsetof(Request, trace),
                sizeof(trace));
  }
  return trace;
}

Result<void> CheckFds(const Request& request, std::size_t count) {
  const std::size_t taken = FdsOf(request);
  return count == taken ? Ok()
                        : Result<void>(Invalid(
                              "fds", "their number differs; the plan takes " +
                                         std::to_string(taken)));
}

namespace {

Result<void> CheckTrace(const PlanTrace& trace) {
  const bool has_trace = trace.trace_id != TraceId{};
  const bool has_span = trace.span_id != SpanId{};
  return has_trace == has_span
             ? Ok()
             : Result<void>(Invalid("trace", "has one of its two ids alone"));
}

}  // namespace

Result<void> CheckRequest(const Request& request, const Config& config) {
  MOUNTD_TRY(CheckTrace(request.trace));
  switch (SubjectOf(request.kind)) {
    case PlanSubject::kNone:
      break;
    case PlanSubject::kAlone:
      return CheckAloneRequest(request, config);
    case PlanSubject::kMount:
      return CheckMountRequest(request, config);
    case PlanSubject::kPlugin:
      return CheckPluginRequest(request);
    case PlanSubject::kNetwork:
      return CheckNetworkRequest(request, config);
    case PlanSubject::kTask:
      return CheckTaskRequest(request);
    case PlanSubject::kTree:
      return CheckTree(request);
    case PlanSubject::kHealth:
      return CheckHealthRequest(request);
  }
  return Invalid("kind");
}

}  // namespace mountd::exec
