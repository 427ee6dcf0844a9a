// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/mounts.h"

#include <utility>

#include "mountd/base/paths.h"
#include "mountd/exec/wire.h"

namespace mountd {
namespace {

exec::TargetPlan TargetOf(const MountRecord& record) {
  return exec::Target(record.allocation, record.task, record.name);
}

std::string Described(const MountRecord& record) {
  return record.allocation + "/" + record.task + "/" + record.name;
}

exec::AttachPlan PlanOf(const BindMountSpec& spec) {
  exec::AttachPlan plan;
  plan.target = exec::Target(spec.allocation, spec.task, spec.name);
  plan.source.kind = spec.source_kind;
  switch (spec.source_kind) {
    case exec::SourceKind::kHostVolume:
      plan.source.host_volume = exec::ToWire(spec.source);
      break;
    case exec::SourceKind::kPublishedVolume:
      plan.source.plugin = exec::ToWire(spec.plugin);
      plan.source.volume = spec.volume.hex();
      break;
    case exec::SourceKind::kTmpfs:
      plan.source.tmpfs = spec.tmpfs;
      break;
    case exec::SourceKind::kFilesystem:
      plan.source.filesystem = exec::ToWire(spec.source);
      break;
  }
  plan.propagation = spec.propagation;
  plan.attributes = spec.attributes;
  plan.ids = spec.ids;
  return plan;
}

MountRecord RecordOf(const BindMountSpec& spec) {
  MountRecord record;
  record.allocation = spec.allocation;
  record.task = spec.task;
  record.name = spec.name;
  record.source_kind = spec.source_kind;
  record.source = spec.source;
  record.tmpfs = spec.tmpfs;
  record.propagation = spec.propagation;
  record.attributes = spec.attributes;
  record.ids = spec.ids;
  record.task_path = spec.task_path;
  return record;
}

bool SameSpec(const MountRecord& a, const MountRecord& b) {
  return a.source_kind == b.source_kind && a.source == b.source &&
         a.tmpfs == b.tmpfs && a.propagation == b.propagation &&
         a.attributes == b.attributes && a.ids == b.ids &&
         a.task_path == b.task_path;
}

// What is anchored, or mounted, for its users.
std::optional<AnchorKey> AnchorOf(const MountRecord& record) {
  const bool anchored = record.source_kind == exec::SourceKind::kHostVolume ||
                        record.source_kind == exec::SourceKind::kFilesystem;
  return anchored ? std::optional(AnchorKey{record.source_kind, record.source})
                  : std::nullopt;
}

std::string LockOf(const AnchorKey& key) {
  return std::string(SourceKindName(key.kind)) + " " + key.source;
}

}  // namespace

std::string_view PropagationName(exec::Propagation propagation) {
  switch (propagation) {
    case exec::Propagation::kHostToTask:
      return "host-to-task";
    case exec::Propagation::kBidirectional:
      return "bidirectional";
    case exec::Propagation::kPrivate:
      break;
  }
  return "private";
}

Result<exec::Propagation> ParsePropagationName(std::string_view name) {
  for (const auto mode :
       {exec::Propagation::kPrivate, exec::Propagation::kHostToTask,
        exec::Propagation::kBidirectional}) {
    if (name == PropagationName(mode)) {
      return mode;
    }
  }
  return MakeError(Code::kInvalidArgument, "check", "propagation",
                   "must be private, host-to-task or bidirectional");
}

std::string_view SourceKindName(exec::SourceKind kind) {
  switch (kind) {
    case exec::SourceKind::kHostVolume:
      return "host";
    case exec::SourceKind::kTmpfs:
      return "tmpfs";
    case exec::SourceKind::kFilesystem:
      return "filesystem";
    case exec::SourceKind::kPublishedVolume:
      break;
  }
  return "volume";
}

Result<exec::SourceKind> ParseSourceKindName(std::string_view name) {
  for (const auto kind :
       {exec::SourceKind::kPublishedVolume, exec::SourceKind::kHostVolume,
        exec::SourceKind::kTmpfs, exec::SourceKind::kFilesystem}) {
    if (name == SourceKindName(kind)) {
      return kind;
    }
  }
  return MakeError(Code::kInvalidArgument, "check", "source_type",
                   "must be volume, host, tmpfs or filesystem");
}

std::string_view RequiredRootfsPropagation(exec::Propagation propagation) {
  switch (propagation) {
    case exec::Propagation::kHostToTask:
      return "slave";
    case exec::Propagation::kBidirectional:
      return "shared";
    case exec::Propagation::kPrivate:
      break;
  }
  return "private";
}

MountConfig ConfigOf(const MountRecord& record) {
  MountConfig config;
  config.host_path = std::string(paths::kBase) + "/" + paths::kAllocations +
                     "/" + Described(record);
  config.record = record;
  return config;
}

Result<MountConfig> Mounts::Bind(const BindMountSpec& spec) {
  MountRecord wanted = RecordOf(spec);
  MOUNTD_ASSIGN(const std::optional<MountRecord> found,
                store_.GetMount(spec.allocation, spec.task, spec.name));
  if (found && found->state == MountRecordState::kAttached) {
    if (!SameSpec(*found, wanted)) {
      return MakeError(Code::kAlreadyExists, "bind-mount", Described(*found),
                       "is mounted already, otherwise");
    }
    return ConfigOf(*found);
  }
  if (found) {
    // Left by an attempt that could not be undone, or lost: clear it first.
    MOUNTD_TRY(Detach(*found));
  }
  MOUNTD_TRY(CheckLimits(wanted));
  return Attach(std::move(wanted), spec);
}

Result<void> Mounts::CheckLimits(const MountRecord& wanted) {
  const LimitsConfig& limits = config_.limits;
  const auto exhausted = [&](const char* why) {
    return MakeError(Code::kResourceExhausted, "bind-mount", Described(wanted),
                     why);
  };
  MOUNTD_ASSIGN(const std::uint32_t count,
                store_.CountMounts(wanted.allocation));
  if (count >= limits.mounts_per_allocation) {
    return exhausted("limits.mounts_per_allocation is reached");
  }
  if (wanted.source_kind != exec::SourceKind::kTmpfs) {
    return Ok();
  }
  if (wanted.tmpfs.bytes > limits.tmpfs_bytes) {
    return exhausted("limits.tmpfs_bytes is less than its size");
  }
  MOUNTD_ASSIGN(const std::uint64_t used,
                store_.TmpfsBytesOf(wanted.allocation));
  if (wanted.tmpfs.bytes > limits.tmpfs_bytes_per_allocation ||
      used > limits.tmpfs_bytes_per_allocation - wanted.tmpfs.bytes) {
    return exhausted("limits.tmpfs_bytes_per_allocation would be exceeded");
  }
  return Ok();
}

Result<MountConfig> Mounts::Attach(MountRecord record,
                                   const BindMountSpec& spec) {
  const std::optional<AnchorKey> anchor = AnchorOf(record);
  std::optional<KeyedLocks::Guard> guard;
  if (anchor) {
    guard.emplace(sources_.Lock(LockOf(*anchor)));
  }
  MOUNTD_TRY(store_.Together([&]() -> Result<void> {
    MOUNTD_TRY(store_.PutMount(record));
    return anchor ? store_.IntendAnchor(*anchor) : Ok();
  }));
  const Result<exec::MountState> attached = executor_.Attach(PlanOf(spec), -1);
  if (!attached) {
    Error error = attached.error();
    // What is at the target then is not ours to take away.
    IgnoreBecauseBestEffort(error.code == Code::kAlreadyExists
                                ? store_.RemoveMount(record)
                                : UndoAttach(record));
    if (anchor) {
      ReleaseAnchorIfUnused(*anchor);
    }
    return error;
  }
  record.mount_id = attached->mount_id;
  record.peer_group = attached->peer_group;
  record.master = attached->master;
  record.state = MountRecordState::kAttached;
  MOUNTD_TRY(store_.Together([&]() -> Result<void> {
    if (anchor) {
      MOUNTD_TRY(attached->anchor_id != 0
                     ? store_.PutAnchor(*anchor, attached->anchor_id)
                     : store_.RemoveAnchor(*anchor));
    }
    return store_.PutMount(record);
  }));
  return ConfigOf(record);
}

// After an Attach whose outcome may be unknown: takes away what is there, then
// the record. On failure the record stays and says so.
Result<void> Mounts::UndoAttach(const MountRecord& record) {
  MOUNTD_ASSIGN(const exec::MountState state,
                executor_.InspectTarget(TargetOf(record)));
  MOUNTD_TRY(executor_.Detach({TargetOf(record), state.mount_id}));
  return store_.RemoveMount(record);
}

Result<void> Mounts::Unmount(const std::string& allocation,
                             const std::string& task, const std::string& name) {
  MOUNTD_ASSIGN(const std::optional<MountRecord> found,
                store_.GetMount(allocation, task, name));
  if (!found) {
    return Ok();
  }
  return Detach(*found);
}

Result<void> Mounts::Detach(const MountRecord& record) {
  const std::optional<AnchorKey> anchor = AnchorOf(record);
  std::optional<KeyedLocks::Guard> guard;
  if (anchor) {
    guard.emplace(sources_.Lock(LockOf(*anchor)));
  }
  if (record.state == MountRecordState::kAttaching) {
    MOUNTD_TRY(UndoAttach(record));
  } else {
    MountRecord detaching = record;
    detaching.state = MountRecordState::kDetaching;
    MOUNTD_TRY(store_.PutMount(detaching));
    if (Result<void> detached =
            executor_.Detach({TargetOf(record), record.mount_id});
        !detached) {
      // Still mounted (Busy) is still attached: the record says what is.
      if (detached.error().code == Code::kBusy) {
        MOUNTD_TRY(store_.PutMount(AsItIsNow(record)));
      }
      return detached;
    }
    MOUNTD_TRY(store_.RemoveMount(record));
  }
  if (anchor) {
    ReleaseAnchorIfUnused(*anchor);
  }
  return Ok();
}

// The groups of a mount that was on its way out may have changed.
MountRecord Mounts::AsItIsNow(MountRecord record) {
  const Result<exec::MountState> state =
      executor_.InspectTarget(TargetOf(record));
  if (state && state->mount_id == record.mount_id) {
    record.peer_group = state->peer_group;
    record.master = state->master;
  }
  return record;
}

// Called with the source's lock. One that cannot go stays, recorded.
void Mounts::ReleaseAnchorIfUnused(const AnchorKey& key) {
  const Result<std::uint32_t> users = store_.CountMountsOf(key);
  const auto anchors = store_.ListAnchors();
  if (!users || *users != 0 || !anchors) {
    return;
  }
  const auto anchor = anchors->find(key);
  if (anchor == anchors->end()) {
    return;
  }
  if (recovering_ ||
      !executor_.ReleaseAnchor(
          {key.kind, exec::ToWire(key.source), anchor->second})) {
    has_left_anchors_ = true;
    return;
  }
  IgnoreBecauseBestEffort(store_.RemoveAnchor(key));
}

void Mounts::ReleaseLeftAnchors() {
  has_left_anchors_ = false;
  const auto anchors = store_.ListAnchors();
  if (!anchors) {
    has_left_anchors_ = true;
    return;
  }
  for (const auto& [key, anchor_id] : *anchors) {
    const KeyedLocks::Guard guard = sources_.Lock(LockOf(key));
    ReleaseAnchorIfUnused(key);
  }
}

Result<void> Mounts::UnmountAll(const std::string& allocation) {
  MOUNTD_ASSIGN(const std::vector<MountRecord> records,
                store_.MountsOf(allocation));
  // One that cannot go does not keep the others: the first error is told.
  Result<void> outcome = Ok();
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    if (Result<void> detached = Detach(*record); !detached && outcome) {
      outcome = std::move(detached);
    }
  }
  return outcome;
}

Result<std::vector<MountConfig>> Mounts::Of(const std::string& allocation) {
  MOUNTD_ASSIGN(const std::vector<MountRecord> records,
                store_.MountsOf(allocation));
  std::vector<MountConfig> configs;
  configs.reserve(records.size());
  for (const MountRecord& record : records) {
    configs.push_back(ConfigOf(record));
  }
  return configs;
}

Result<void> Mounts::Recover() {
  MOUNTD_ASSIGN(const std::vector<MountRecord> records, store_.ListMounts());
  recovering_ = true;
  Result<void> outcome = Ok();
  for (auto record = records.begin(); record != records.end() && outcome;
       ++record) {
    outcome = RecoverOne(*record);
  }
  recovering_ = false;
  has_left_anchors_ = true;
  return outcome;
}

Result<std::string> Mounts::LookLost(const MountRecord& seen) {
  MOUNTD_ASSIGN(const std::optional<MountRecord> record,
                store_.GetMount(seen.allocation, seen.task, seen.name));
  if (!record || record->state != MountRecordState::kAttached ||
      record->mount_id != seen.mount_id) {
    return std::string();
  }
  MOUNTD_ASSIGN(const exec::MountState state,
                executor_.InspectTarget(TargetOf(*record)));
  if (state.mount_id == record->mount_id) {
    return std::string();
  }
  MountRecord lost = *record;
  lost.state = MountRecordState::kLost;
  MOUNTD_TRY(store_.PutMount(lost));
  return std::string(state.mount_id == 0 ? "no mount is there"
                                         : "another mount is there");
}

// Nobody was told of a mount whose making was cut off, and one whose undoing
// was is to go. What cannot go now (Busy, no answer) stays recorded, for the
// next call or the release: it must not keep mountd from starting.
Result<void> Mounts::RecoverOne(const MountRecord& record) {
  if (record.state == MountRecordState::kAttaching ||
      record.state == MountRecordState::kDetaching) {
    IgnoreBecauseBestEffort(Detach(record));
    return Ok();
  }
  const Result<exec::MountState> state =
      executor_.InspectTarget(TargetOf(record));
  if (!state || state->mount_id == record.mount_id) {
    return Ok();
  }
  MountRecord lost = record;
  lost.state = MountRecordState::kLost;
  return store_.PutMount(lost);
}

}  // namespace mountd
