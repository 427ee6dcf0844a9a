// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/mounts/mounts.h"

#include <algorithm>
#include <set>
#include <utility>

#include "mountd/plan/wire.h"

namespace mountd {
namespace {

MountRecord AsAttached(MountRecord record, const exec::MountState& state) {
  record.mount_id = state.mount_id;
  record.peer_group = state.peer_group;
  record.master = state.master;
  record.source_group = state.source_peer_group;
  return record;
}

Result<void> CheckNamedOnce(const std::vector<BindMountRequest>& requests) {
  std::set<std::string> names;
  for (const BindMountRequest& request : requests) {
    const std::string name = Described(RecordOf(request));
    if (!names.insert(name).second) {
      return MakeError(Code::kInvalidArgument, "bind-mount", name,
                       "is named twice in one call");
    }
  }
  return Ok();
}

}  // namespace

Result<std::vector<MountConfig>> Mounts::Bind(
    const std::vector<BindMountRequest>& requests, const Progress& progress) {
  MOUNTD_TRY(CheckNamedOnce(requests));
  progress.Expect(requests.size());
  std::vector<Bound> bound;
  for (const BindMountRequest& request : requests) {
    progress.At(StepOf(request));
    Result<Bound> one = BindOne(request);
    if (!one) {
      // Undo only mounts that this call made.
      for (auto done = bound.rbegin(); done != bound.rend(); ++done) {
        if (done->made) {
          IgnoreBecauseBestEffort(Detach(done->record));
        }
      }
      return std::move(one).error();
    }
    bound.push_back(*std::move(one));
    progress.Advance();
  }
  std::vector<MountConfig> configs;
  for (Bound& one : bound) {
    one.record.state = MountRecordState::kAttached;
    configs.push_back(ConfigOf(one.record));
  }
  // Until here the records are intents, so a restart would remove this call's
  // mounts.
  MOUNTD_TRY(PutAttached(bound));
  return configs;
}

Result<MountConfig> Mounts::Bind(const BindMountRequest& request) {
  MOUNTD_ASSIGN(std::vector<MountConfig> configs, Bind(std::vector{request}));
  return std::move(configs.front());
}

Result<Mounts::Bound> Mounts::BindOne(const BindMountRequest& request) {
  MountRecord wanted = RecordOf(request);
  MOUNTD_ASSIGN(
      const std::optional<MountRecord> found,
      store_.mounts.GetMount(request.allocation, request.task, request.name));
  MOUNTD_ASSIGN(const bool ended,
                found ? HasEnded(*found) : Result<bool>(false));
  if (found && found->state == MountRecordState::kAttached && !ended) {
    if (found->wish != wanted.wish) {
      return MakeError(
          Code::kAlreadyExists, "bind-mount", Described(*found),
          "is already mounted with other options; unmount it first");
    }
    return Bound{*found, false, 0};
  }
  if (found && found->state == MountRecordState::kFound) {
    return TakeOver(std::move(wanted), request);
  }
  if (found) {
    // An earlier attempt left this mount because it could not be undone, or the
    // mount is lost. Clear it first.
    MOUNTD_TRY(Detach(*found));
  }
  MOUNTD_TRY(CheckLimits(wanted));
  return Attach(std::move(wanted), request);
}

// Takes over a mount that was found without a record. The executor compares the
// mount with the request. No further intent is needed: the mount's record has
// the state `found`, and undoing such a record removes whatever mount is at the
// target.
Result<Mounts::Bound> Mounts::TakeOver(MountRecord wanted,
                                       const BindMountRequest& request) {
  const std::optional<AnchorKey> anchor = AnchorOf(wanted);
  std::optional<KeyedLocks::Guard> guard;
  if (anchor) {
    guard.emplace(LockSource(*anchor));
  }
  Result<exec::MountState> attached = RunAttach(request, 0);
  if (!attached) {
    Error error = std::move(attached).error();
    if (error.code == Code::kAlreadyExists) {
      error.detail +=
          "; mountd found this mount without a record, so only unmount or "
          "replace is possible";
    }
    return error;
  }
  MountRecord now = AsAttached(std::move(wanted), *attached);
  now.state = MountRecordState::kAttached;
  MOUNTD_TRY(store_.Together([&]() -> Result<void> {
    MOUNTD_TRY(PutAnchorOf(now, attached->anchor_id));
    return store_.mounts.PutMount(now);
  }));
  if (IsPropagatedDirectory(now.wish)) {
    propagated_directories_.Added(now.uid);
  }
  MOUNTD_TRY(CountFound());
  return Bound{std::move(now), false, 0};
}

// Returns whether a mount in a container has ended. Such a mount ends with its
// container, and nothing notifies mountd of that.
Result<bool> Mounts::HasEnded(const MountRecord& record) {
  if (record.wish.target_kind != exec::TargetKind::kContainer) {
    return false;
  }
  MOUNTD_ASSIGN(const exec::MountState there,
                executor_.InspectTarget(TargetOf(record)));
  return there.mount_id != record.mount_id;
}

Result<void> Mounts::CheckLimits(const MountRecord& wanted) {
  const LimitsConfig& limits = config_.limits;
  const auto exhausted = [&](const char* why) {
    return MakeError(Code::kResourceExhausted, "bind-mount", Described(wanted),
                     why);
  };
  MOUNTD_ASSIGN(const bool user_has_room,
                of_users_.IsBelow(wanted.uid, limits.mounts_per_uid, [&] {
                  return store_.mounts.CountMountsOfUser(wanted.uid);
                }));
  if (!user_has_room) {
    return exhausted(
        "limits.mounts_per_uid is reached; unmount others of this user or "
        "raise the limit");
  }
  MOUNTD_ASSIGN(const bool has_room,
                of_allocations_.IsBelow(
                    wanted.allocation, limits.mounts_per_allocation, [&] {
                      return store_.mounts.CountMounts(wanted.allocation);
                    }));
  if (!has_room) {
    return exhausted(
        "limits.mounts_per_allocation is reached; unmount others of this "
        "allocation or raise the limit");
  }
  if (wanted.wish.source_kind != exec::SourceKind::kTmpfs) {
    return Ok();
  }
  if (wanted.wish.tmpfs.bytes > limits.tmpfs_bytes) {
    return exhausted(
        "its size exceeds limits.tmpfs_bytes; ask for a smaller tmpfs or raise "
        "the limit");
  }
  MOUNTD_ASSIGN(const std::uint64_t used,
                store_.mounts.TmpfsBytesOf(wanted.allocation));
  if (wanted.wish.tmpfs.bytes > limits.tmpfs_bytes_per_allocation ||
      used > limits.tmpfs_bytes_per_allocation - wanted.wish.tmpfs.bytes) {
    return exhausted(
        "its size would exceed limits.tmpfs_bytes_per_allocation; ask for less "
        "or raise the limit");
  }
  return Ok();
}

// Writes the intent of a mount, if the user may have one more of its kind. A
// user may have only a few mounts of own directories into which later mounts
// propagate, because each of them gets a copy of every mount that the user
// makes below the directory, by FUSE or by mountd. The check and the write are
// one step, so that two calls do not both use the last place.
Result<void> Mounts::PutIntent(const MountRecord& record) {
  const auto put = [&] { return store_.mounts.PutMount(record); };
  if (!IsPropagatedDirectory(record.wish)) {
    return put();
  }
  MOUNTD_ASSIGN(
      const bool has_room,
      propagated_directories_.AddIfBelow(
          record.uid, config_.limits.propagated_directories_per_uid,
          [&] { return store_.mounts.CountPropagatedDirectories(record.uid); },
          put));
  return has_room
             ? Ok()
             : Result<void>(MakeError(
                   Code::kResourceExhausted, "bind-mount", Described(record),
                   "limits.propagated_directories_per_uid is reached; mount "
                   "the directory with propagation private, unmount others of "
                   "this user or raise the limit"));
}

// The caller holds the source's lock and has written the intent.
Result<exec::MountState> Mounts::RunAttach(const BindMountRequest& request,
                                           std::uint64_t replaces) {
  exec::AttachPlan plan = PlanOf(request);
  plan.replaces = replaces;
  return executor_.Attach(plan, request.fd ? request.fd->get() : -1);
}

// Writes only the columns that the intent does not have.
Result<void> Mounts::PutAttached(const Bound& one) {
  MOUNTD_TRY(PutAnchorOf(one.record, one.anchor_id));
  return store_.mounts.UpdateMount(one.record);
}

Result<void> Mounts::PutAttached(const std::vector<Bound>& all) {
  if (all.size() == 1 && all.front().anchor_id == 0) {
    // A transaction around one statement would only add work.
    return all.front().made ? PutAttached(all.front()) : Ok();
  }
  return store_.Together([&]() -> Result<void> {
    for (const Bound& one : all) {
      if (one.made) {
        MOUNTD_TRY(PutAttached(one));
      }
    }
    return Ok();
  });
}

Result<Mounts::Bound> Mounts::Attach(MountRecord record,
                                     const BindMountRequest& request) {
  const std::optional<AnchorKey> anchor = AnchorOf(record);
  std::optional<KeyedLocks::Guard> guard;
  if (anchor) {
    guard.emplace(LockSource(*anchor));
  }
  // The mount's intent also says that its source may have an anchor.
  MOUNTD_TRY(PutIntent(record));
  of_users_.Added(record.uid);
  of_allocations_.Added(record.allocation);
  const Result<exec::MountState> attached = RunAttach(request, 0);
  if (!attached) {
    Error error = attached.error();
    const Result<void> doubted =
        anchor ? store_.anchors.DoubtAnchor(*anchor) : Ok();
    if (error.code == Code::kAlreadyExists) {
      // The mount at the target is not mountd's, so leave it and forget the
      // intent.
      IgnoreBecauseBestEffort(Forget(record));
    } else if (doubted) {
      // Undo the mount only now. Until the anchor was recorded as doubtful, the
      // mount's intent was the only sign of it.
      IgnoreBecauseBestEffort(UndoAttach(record));
    }
    if (anchor) {
      ReleaseAnchorIfUnused(*anchor);
    }
    return error;
  }
  return Bound{AsAttached(std::move(record), *attached), true,
               attached->anchor_id};
}

Result<Mounts::Replaced> Mounts::Replace(const BindMountRequest& request) {
  MOUNTD_ASSIGN(
      const std::optional<MountRecord> found,
      store_.mounts.GetMount(request.allocation, request.task, request.name));
  const MountRecord wanted = RecordOf(request);
  if (!found || (found->state != MountRecordState::kAttached &&
                 found->state != MountRecordState::kReplacing &&
                 found->state != MountRecordState::kFound)) {
    return MakeError(Code::kNotFound, "replace", Described(wanted),
                     found ? "is no longer mounted; mount it without replace"
                           : "is not mounted");
  }
  if (found->wish.target_kind != exec::TargetKind::kInbox) {
    return MakeError(Code::kNotSupported, "replace", Described(wanted),
                     "is outside the inbox, where a mount cannot be replaced; "
                     "unmount it first");
  }
  if (found->state == MountRecordState::kAttached &&
      found->wish == wanted.wish) {
    return Replaced{ConfigOf(*found), 0, {}};
  }
  MOUNTD_ASSIGN(const MountRecord now, Swap(*found, request));
  if (const std::optional<AnchorKey> anchor = AnchorOf(*found)) {
    const KeyedLocks::Guard guard = LockSource(*anchor);
    ReleaseAnchorIfUnused(*anchor);
  }
  return Replaced{ConfigOf(now), found->mount_id, {}};
}

Result<Mounts::Replaced> Mounts::Repair(const BindMountRequest& request) {
  MOUNTD_ASSIGN(
      const std::optional<MountRecord> found,
      store_.mounts.GetMount(request.allocation, request.task, request.name));
  if (!found) {
    return MakeError(Code::kNotFound, "repair", Described(RecordOf(request)),
                     "is not mounted");
  }
  MOUNTD_ASSIGN(const exec::MountState there,
                executor_.InspectTarget(TargetOf(*found)));
  if (there.mount_id == 0 || found->state == MountRecordState::kLost) {
    // Bind clears a lost record and then mounts again.
    MOUNTD_TRY(store_.mounts.SetMountState(*found, MountRecordState::kLost));
    MOUNTD_ASSIGN(MountConfig config, Bind(request));
    return Replaced{std::move(config), found->mount_id, {}};
  }
  MOUNTD_ASSIGN(const MountRecord now, Swap(*found, request));
  return Replaced{ConfigOf(now), found->mount_id, {}};
}

// Replaces the old mount by the requested one. Keeps the old mount's record
// until the new mount is known. If mountd restarts in between, Unmount removes
// whichever of the two is at the target. The old record does not name the new
// source, so this function first records the new source's anchor as doubtful.
Result<MountRecord> Mounts::Swap(const MountRecord& old,
                                 const BindMountRequest& request) {
  const std::optional<AnchorKey> anchor = AnchorOf(RecordOf(request));
  std::optional<KeyedLocks::Guard> guard;
  if (anchor) {
    guard.emplace(LockSource(*anchor));
  }
  MOUNTD_TRY(store_.Together([&]() -> Result<void> {
    MOUNTD_TRY(store_.mounts.SetMountState(old, MountRecordState::kReplacing));
    return anchor ? store_.anchors.DoubtAnchor(*anchor) : Ok();
  }));
  const Result<exec::MountState> swapped = RunAttach(request, old.mount_id);
  if (!swapped) {
    const Result<exec::MountState> now = executor_.InspectTarget(TargetOf(old));
    if (now && now->mount_id == old.mount_id && now->is_stacked == 0) {
      // The swap changed nothing, so the old mount is attached as before.
      MOUNTD_TRY(store_.mounts.UpdateMount(AsItIsNow(old)));
    }
    if (anchor) {
      ReleaseAnchorIfUnused(*anchor);
    }
    return swapped.error();
  }
  MountRecord now = AsAttached(RecordOf(request), *swapped);
  now.state = MountRecordState::kAttached;
  MOUNTD_TRY(store_.Together([&]() -> Result<void> {
    MOUNTD_TRY(PutAnchorOf(now, swapped->anchor_id));
    return store_.mounts.PutMount(now);
  }));
  return now;
}

// Opens the tree. For a source without an anchor the executor makes one and
// removes it again. An executor that is killed in between leaves the anchor, so
// this function first records it as doubtful.
Result<exec::HandedOutFd> Mounts::OpenTree(const BindMountRequest& request) {
  exec::OpenTreePlan plan;
  plan.allocation = exec::ToWire(request.allocation);
  plan.source = PlanOf(request).source;
  plan.propagation = request.wish.propagation;
  plan.attributes = request.wish.attributes;
  const std::optional<AnchorKey> anchor = AnchorOf(RecordOf(request));
  if (!anchor) {
    return executor_.OpenTree(plan);
  }
  const KeyedLocks::Guard guard = LockSource(*anchor);
  MOUNTD_ASSIGN(const std::optional<std::uint64_t> known,
                store_.anchors.GetAnchor(*anchor));
  if (!known) {
    MOUNTD_TRY(store_.anchors.DoubtAnchor(*anchor));
  }
  Result<exec::HandedOutFd> tree = executor_.OpenTree(plan);
  ReleaseAnchorIfUnused(*anchor);
  return tree;
}

Result<std::vector<MountConfig>> Mounts::Of(const std::string& allocation) {
  MOUNTD_ASSIGN(const std::vector<MountRecord> records,
                store_.mounts.MountsOf(allocation));
  std::vector<MountConfig> configs;
  configs.reserve(records.size());
  for (const MountRecord& record : records) {
    configs.push_back(ConfigOf(record));
  }
  return configs;
}

}  // namespace mountd
