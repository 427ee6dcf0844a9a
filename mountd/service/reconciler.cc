// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/reconciler.h"

#include <algorithm>
#include <utility>

#include "mountd/service/live_processes.h"

namespace mountd {
namespace {

using Outcome = ReconcileOutcome;

std::string ScopeOf(const ReconcileSpec& spec) {
  return "scope \"" + spec.scope + "\"";
}

}  // namespace

Result<std::vector<ReconcileEntry>> Reconciler::Reconcile(
    const CallContext& call, const ReconcileSpec& spec, Strands& strands) {
  MOUNTD_TRY(access_.PolicyFor(call).MayPrepare(call.caller));
  MOUNTD_TRY(EnterEpoch(call, spec));
  std::vector<ReconcileEntry> entries;
  std::set<std::string> missing = spec.wanted;
  std::vector<std::string> unwanted;
  // Begin to watch before reading the records, so that no allocation that is
  // prepared in between is missed.
  const PreparedMeanwhile::Watch prepared(prepared_);
  MOUNTD_ASSIGN(
      const std::vector<AllocationRecord> records,
      parts_.state.allocations.AllocationsOf(call.caller.uid, spec.scope));
  for (const AllocationRecord& record : records) {
    if (missing.erase(record.id) == 0) {
      unwanted.push_back(record.id);
      continue;
    }
    MOUNTD_ASSIGN(ReconcileEntry entry, JudgeWanted(record));
    entries.push_back(std::move(entry));
  }
  for (const std::string& name : missing) {
    MOUNTD_ASSIGN(ReconcileEntry entry, JudgeMissing(call, name));
    entries.push_back(std::move(entry));
  }
  MOUNTD_TRY(SweepAll({call, spec, prepared}, strands, unwanted, &entries));
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.allocation < b.allocation;
  });
  return entries;
}

// Records the epoch before it releases anything, so that calls of an older
// agent are refused from now on.
Result<void> Reconciler::EnterEpoch(const CallContext& call,
                                    const ReconcileSpec& spec) {
  std::uint64_t highest = spec.epoch;
  if (spec.dry_run) {
    MOUNTD_ASSIGN(
        const std::optional<std::uint64_t> known,
        parts_.state.allocations.GetEpoch(call.caller.uid, spec.scope));
    highest = known.value_or(0);
  } else {
    MOUNTD_ASSIGN(highest, parts_.state.allocations.RaiseEpoch(
                               call.caller.uid, spec.scope, spec.epoch));
  }
  if (highest <= spec.epoch) {
    return Ok();
  }
  return MakeError(Code::kFailedPrecondition, "reconcile", ScopeOf(spec),
                   "epoch " + std::to_string(spec.epoch) +
                       " is older than the last epoch of this scope, " +
                       std::to_string(highest));
}

// Returns the first error of any sweep. The other sweeps ran to their end.
Result<void> Reconciler::SweepAll(const Sweeping& sweeping, Strands& strands,
                                  const std::vector<std::string>& unwanted,
                                  std::vector<ReconcileEntry>* entries) {
  std::vector<std::optional<Result<ReconcileEntry>>> outcomes(unwanted.size());
  const Progress& progress = sweeping.call.progress;
  progress.At(Step::kRelease);
  progress.Expect(unwanted.size());
  ForEachOnStrand(
      strands, unwanted, [&] { return sweeping.call.cancelled->load(); },
      [&](std::size_t i) {
        outcomes[i] = Sweep(sweeping, unwanted[i]);
        progress.Advance();
      });
  Result<void> outcome = Ok();
  for (auto& swept : outcomes) {
    if (swept && *swept) {
      entries->push_back(**std::move(swept));
    } else if (outcome) {
      outcome = swept ? swept->error()
                      : MakeError(Code::kAborted, "reconcile",
                                  ScopeOf(sweeping.spec), "was cancelled");
    }
  }
  // Failed releases are pending now, so let mountd retry them.
  parts_.on_owed();
  return outcome;
}

// Runs on the allocation's strand, so earlier calls there have ended, and later
// calls see the outcome.
Result<ReconcileEntry> Reconciler::Sweep(const Sweeping& sweeping,
                                         const std::string& allocation) {
  ReconcileEntry entry{allocation, Outcome::kReleased, "", {}, {}};
  MOUNTD_ASSIGN(const std::optional<AllocationRecord> record,
                parts_.state.allocations.GetAllocation(allocation));
  if (!record || record->uid != sweeping.call.caller.uid ||
      record->scope != sweeping.spec.scope) {
    entry.reason = "another call released it";
    return entry;
  }
  if (sweeping.prepared.Has(allocation)) {
    entry.outcome = Outcome::kPresent;
    entry.reason = "another call prepared it meanwhile";
    return entry;
  }
  // A release that has begun has already passed this check.
  if (record->state == AllocationState::kPrepared &&
      Lives(sweeping.call, *record, &entry)) {
    return entry;
  }
  if (sweeping.spec.dry_run) {
    entry.outcome = Outcome::kUnwanted;
    return entry;
  }
  const Result<ReceiptRecord> released = teardowns_.Release(*record);
  if (!released) {
    MOUNTD_ASSIGN(entry.outcome, OutcomeOf(*record, released.error()));
    entry.reason = released.error().Message();
  }
  return entry;
}

Result<Outcome> Reconciler::OutcomeOf(const AllocationRecord& record,
                                      const Error& error) {
  MOUNTD_ASSIGN(const bool owed,
                parts_.state.owed.IsOwed(OwedKind::kRelease, record.id));
  if (owed) {
    return Outcome::kOwed;
  }
  // An error of the store says nothing about tasks. The other errors here mean
  // that nothing was removed, because a process has copies or may have some.
  if (error.op != "store" &&
      (error.code == Code::kBusy || error.code == Code::kUnavailable ||
       error.code == Code::kDeadlineExceeded)) {
    return Outcome::kLive;
  }
  return error;
}

// Returns whether the allocation has live processes. True also if a search
// cannot tell.
bool Reconciler::Lives(const CallContext& call, const AllocationRecord& record,
                       ReconcileEntry* entry) {
  Result<std::optional<LiveProcesses>> live = FindLiveProcesses(parts_, record);
  if (live && !*live) {
    return false;
  }
  entry->outcome = Outcome::kLive;
  if (!live) {
    entry->reason = "mountd cannot tell whether it has live processes: " +
                    live.error().Message();
    return true;
  }
  HolderReport& holders = (*live)->holders;
  access_.HideOthers(call, &holders);
  const std::string names = Summary(holders);
  entry->reason = (*live)->what + (names.empty() ? "" : ": " + names);
  entry->holders = std::move(holders);
  return true;
}

// Returns which parts of the allocation the agent must make again, as far as
// the records show.
Result<ReconcileEntry> Reconciler::JudgeWanted(const AllocationRecord& record) {
  ReconcileEntry entry{record.id, Outcome::kPresent, "", {}, {}};
  if (record.state == AllocationState::kReleasing) {
    entry.outcome = Outcome::kOwed;
    entry.reason = "is being released; prepare it again after that";
    return entry;
  }
  MOUNTD_ASSIGN(const std::vector<MountRecord> mounts,
                parts_.boot.mounts.MountsOf(record.id));
  MOUNTD_ASSIGN(const std::vector<NetworkRecord> networks,
                parts_.boot.networks.NetworksOf(record.id));
  MOUNTD_ASSIGN(const std::vector<PublicationRecord> volumes,
                parts_.state.volumes.PublicationsOf(record.id));
  for (const NetworkRecord& network : networks) {
    if (network.state != NetworkRecordState::kCreated) {
      entry.needs.push_back("network/" + network.interface);
    }
  }
  for (const PublicationRecord& volume : volumes) {
    if (volume.state != PublicationState::kPublished) {
      entry.needs.push_back("volume/" + volume.alias);
    }
  }
  for (const MountRecord& mount : mounts) {
    if (mount.state != MountRecordState::kAttached) {
      entry.needs.push_back("mount/" + mount.task + "/" + mount.name);
    }
  }
  if (mounts.empty() && networks.empty()) {
    entry.needs.insert(entry.needs.begin(), "bare");
    entry.reason = "it has no network and no mount since the node's last start";
  } else if (!entry.needs.empty()) {
    entry.reason = "a part of it must be made again";
  }
  return entry;
}

Result<ReconcileEntry> Reconciler::JudgeMissing(const CallContext& call,
                                                const std::string& name) {
  ReconcileEntry entry{name, Outcome::kMissing, "is not prepared", {}, {}};
  MOUNTD_ASSIGN(const std::optional<AllocationRecord> other,
                parts_.state.allocations.GetAllocation(name));
  if (other && other->uid != call.caller.uid) {
    entry.reason = "belongs to another user";
  } else if (other) {
    entry.reason = "belongs to scope \"" + other->scope + "\"";
  }
  return entry;
}

}  // namespace mountd
