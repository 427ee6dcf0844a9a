// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Snapshots: copies of volumes that do not depend on the volume afterwards.
#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

#include "csi-node/csi-local/contents.h"
#include "csi-node/csi-local/store.h"
#include "mountd/base/names.h"

namespace mountd::csi_local {
namespace {

std::string SnapshotIdOf(const std::string& name) {
  return "snap-" + VolumeKey::Derive("csi-local snapshot", name).str();
}

std::int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Result<SnapshotRecord> Store::GetSnapshot(const std::string& id) {
  SnapshotRecord record;
  const Result<void> found = data_->snapshot_records().Get(id, &record);
  if (!found && found.error().code != Code::kNotFound) {
    return found.error();
  }
  if (!found || record.state() != READY) {
    return MakeError(Code::kNotFound, "snapshot_id", id,
                     "the snapshot does not exist");
  }
  return record;
}

Result<std::vector<SnapshotRecord>> Store::ListSnapshots() {
  MOUNTD_ASSIGN(const auto ids, data_->snapshot_records().List());
  std::vector<SnapshotRecord> snapshots;
  for (const std::string& id : ids) {
    Result<SnapshotRecord> record = GetSnapshot(id);
    if (record) {
      snapshots.push_back(std::move(*record));
    } else if (record.error().code != Code::kNotFound) {
      return record.error();
    }
  }
  return snapshots;
}

Result<SnapshotRecord> Store::CreateSnapshot(
    const std::string& name, const std::string& source_volume_id) {
  const std::string id = SnapshotIdOf(name);
  MOUNTD_ASSIGN(const auto held, locks_.Take({id, source_volume_id}));
  SnapshotRecord record;
  const Result<void> found = data_->snapshot_records().Get(id, &record);
  if (!found && found.error().code != Code::kNotFound) {
    return found.error();
  }
  if (found && record.state() == READY) {
    if (record.source_volume_id() != source_volume_id) {
      return MakeError(
          Code::kAlreadyExists, "snapshot", name,
          "a snapshot of another volume has this name; choose another");
    }
    return record;
  }
  if (found) {
    MOUNTD_TRY(RemoveSnapshot(record));  // left by a call that failed half way
  }
  MOUNTD_ASSIGN(const VolumeRecord source, GetVolume(source_volume_id));
  record.Clear();
  record.set_state(MAKING);
  record.set_id(id);
  record.set_name(name);
  *record.mutable_content() = source.content();
  record.set_source_volume_id(source_volume_id);
  record.set_created_ns(NowNs());
  MOUNTD_TRY(ReserveSnapshot(record));
  const Result<void> copied =
      CopyVolume(source, data_->snapshots(), id, record.content());
  if (!copied) {
    // If this fails as well, the next call or the next start removes the
    // snapshot.
    IgnoreBecauseBestEffort(RemoveSnapshot(record));
    return copied.error();
  }
  record.set_state(READY);
  MOUNTD_TRY(data_->snapshot_records().Put(id, record));
  return record;
}

Result<void> Store::ReserveSnapshot(const SnapshotRecord& record) {
  const std::lock_guard guard(reserve_mutex_);
  MOUNTD_TRY(
      CheckRoom(record.content().kind(),
                AllocatedBytes(data_->volumes(), record.source_volume_id()),
                record.name()));
  return data_->snapshot_records().Put(record.id(), record);
}

Result<Store::SnapshotRoom> Store::RoomOfSnapshots() {
  SnapshotRoom room;
  MOUNTD_ASSIGN(const auto ids, data_->snapshot_records().List());
  for (const std::string& id : ids) {
    SnapshotRecord record;
    const Result<void> found = data_->snapshot_records().Get(id, &record);
    if (!found && found.error().code != Code::kNotFound) {
      return found.error();
    }
    const std::int64_t bytes = AllocatedBytes(data_->snapshots(), id);
    room.taken += bytes;
    if (record.state() == MAKING) {
      const std::int64_t all =
          AllocatedBytes(data_->volumes(), record.source_volume_id());
      room.owed += std::max<std::int64_t>(0, all - bytes);
    }
  }
  return room;
}

Result<void> Store::DeleteSnapshot(const std::string& id) {
  MOUNTD_ASSIGN(const auto held, locks_.Take({id}));
  SnapshotRecord record;
  const Result<void> found = data_->snapshot_records().Get(id, &record);
  if (!found) {
    return found.error().code == Code::kNotFound ? Ok() : found;
  }
  return RemoveSnapshot(record);
}

Result<void> Store::RemoveSnapshot(SnapshotRecord record) {
  // Writes the state first, so that after a kill the next start continues the
  // removal.
  record.set_state(DELETING);
  MOUNTD_TRY(data_->snapshot_records().Put(record.id(), record));
  MOUNTD_TRY(RemoveContent(data_->snapshots(), record.id()));
  return data_->snapshot_records().Remove(record.id());
}

}  // namespace mountd::csi_local
