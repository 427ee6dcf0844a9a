// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/store/mount_table.h"

#include "mountd/store/columns.h"
#include "mountd/store/count_by.h"

namespace mountd::store {
namespace {

constexpr std::string_view kSelectMount =
    "SELECT allocation,task,name,source_kind,source,propagation,attributes,"
    "task_path,tmpfs,id_map,state,mount_id,peer_group,master,"
    "source_group,uid,target_kind,directory FROM mounts ";

MountRecord ReadMount(const Row& row) {
  MountRecord record;
  record.allocation = row.Text(0);
  record.task = row.Text(1);
  record.name = row.Text(2);
  record.wish.source_kind = static_cast<exec::SourceKind>(row.Int(3));
  record.wish.source = row.Text(4);
  record.wish.propagation = static_cast<exec::Propagation>(row.Int(5));
  record.wish.attributes = static_cast<std::uint32_t>(row.Int(6));
  record.wish.task_path = row.Text(7);
  record.wish.tmpfs = TmpfsFromColumn(row.Text(8));
  record.wish.ids = IdsFromColumn(row.Text(9));
  record.state = static_cast<MountRecordState>(row.Int(10));
  record.mount_id = row.Bits(11);
  record.peer_group = row.Bits(12);
  record.master = row.Bits(13);
  record.source_group = row.Bits(14);
  record.uid = static_cast<std::uint32_t>(row.Int(15));
  record.wish.target_kind = static_cast<exec::TargetKind>(row.Int(16));
  record.wish.place = row.Text(17);
  return record;
}

}  // namespace

Result<void> MountTable::PutMount(const MountRecord& record) {
  MOUNTD_TRY(database_->Run(
      // tmpfs_bytes has a column of its own, so that TmpfsBytesOf can sum it
      // up.
      "INSERT OR REPLACE INTO mounts(allocation,task,name,source_kind,source,"
      "propagation,attributes,task_path,tmpfs,tmpfs_bytes,id_map,state,"
      "mount_id,peer_group,master,source_group,uid,target_kind,directory) "
      "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,"
      "?19)",
      record.allocation, record.task, record.name,
      static_cast<int>(record.wish.source_kind), record.wish.source,
      static_cast<int>(record.wish.propagation), record.wish.attributes,
      record.wish.task_path, ToColumn(record.wish.tmpfs),
      record.wish.tmpfs.bytes, ToColumn(record.wish.ids),
      static_cast<int>(record.state), record.mount_id, record.peer_group,
      record.master, record.source_group, record.uid,
      static_cast<int>(record.wish.target_kind), record.wish.place));
  return Ok();
}

Result<void> MountTable::UpdateMount(const MountRecord& record) {
  MOUNTD_TRY(database_->Run(
      "UPDATE mounts SET state=?4,mount_id=?5,peer_group=?6,master=?7,"
      "source_group=?8 WHERE allocation=?1 AND task=?2 AND name=?3",
      record.allocation, record.task, record.name,
      static_cast<int>(record.state), record.mount_id, record.peer_group,
      record.master, record.source_group));
  return Ok();
}

Result<void> MountTable::SetMountState(const MountRecord& record,
                                       MountRecordState state) {
  MOUNTD_TRY(database_->Run(
      "UPDATE mounts SET state=?4 WHERE allocation=?1 AND task=?2 AND name=?3",
      record.allocation, record.task, record.name, static_cast<int>(state)));
  return Ok();
}

Result<std::optional<MountRecord>> MountTable::GetMount(
    const std::string& allocation, const std::string& task,
    const std::string& name) {
  static const std::string sql =
      std::string(kSelectMount) + "WHERE allocation=?1 AND task=?2 AND name=?3";
  std::optional<MountRecord> found;
  MOUNTD_TRY(database_->Query(
      sql, [&](const Row& row) { found = ReadMount(row); }, allocation, task,
      name));
  return found;
}

Result<std::optional<MountRecord>> MountTable::FindMount(
    std::uint64_t mount_id) {
  static const std::string sql =
      std::string(kSelectMount) + "WHERE mount_id=?1 AND mount_id<>0";
  std::optional<MountRecord> found;
  MOUNTD_TRY(database_->Query(
      sql, [&](const Row& row) { found = ReadMount(row); }, mount_id));
  return found;
}

Result<std::vector<MountRecord>> MountTable::ListMounts() {
  static const std::string sql =
      std::string(kSelectMount) + "ORDER BY allocation,task,name";
  std::vector<MountRecord> all;
  MOUNTD_TRY(database_->Query(
      sql, [&](const Row& row) { all.push_back(ReadMount(row)); }));
  return all;
}

Result<std::vector<MountRecord>> MountTable::MountsOf(
    const std::string& allocation) {
  static const std::string sql =
      std::string(kSelectMount) + "WHERE allocation=?1 ORDER BY task,name";
  std::vector<MountRecord> all;
  MOUNTD_TRY(database_->Query(
      sql, [&](const Row& row) { all.push_back(ReadMount(row)); }, allocation));
  return all;
}

Result<std::uint32_t> MountTable::CountMounts(const std::string& allocation) {
  return CountBy(*database_, "SELECT count(*) FROM mounts WHERE allocation=?1",
                 allocation);
}

Result<std::uint32_t> MountTable::CountMountsOfUser(std::uint32_t uid) {
  return CountBy(*database_, "SELECT count(*) FROM mounts WHERE uid=?1", uid);
}

Result<std::uint32_t> MountTable::CountPropagatedDirectories(
    std::uint32_t uid) {
  std::uint32_t number = 0;
  MOUNTD_TRY(database_->Query(
      "SELECT count(*) FROM mounts WHERE uid=?1 AND "
      "((source_kind=?2 AND propagation<>?3) OR (state=?4 AND master<>0))",
      [&](const Row& row) { number = static_cast<std::uint32_t>(row.Int(0)); },
      uid, static_cast<int>(exec::SourceKind::kDirectory),
      static_cast<int>(exec::Propagation::kPrivate),
      static_cast<int>(MountRecordState::kFound)));
  return number;
}

Result<std::uint64_t> MountTable::TmpfsBytesOf(const std::string& allocation) {
  std::uint64_t bytes = 0;
  MOUNTD_TRY(database_->Query(
      "SELECT coalesce(sum(tmpfs_bytes),0) FROM mounts WHERE allocation=?1",
      [&](const Row& row) { bytes = row.Bits(0); }, allocation));
  return bytes;
}

Result<bool> MountTable::HasMountsOf(const AnchorKey& key) {
  bool has = false;
  MOUNTD_TRY(database_->Query(
      "SELECT 1 FROM mounts WHERE source_kind=?1 AND source=?2 LIMIT 1",
      [&](const Row&) { has = true; }, static_cast<int>(key.kind), key.source));
  return has;
}

Result<bool> MountTable::RemoveMount(const MountRecord& record) {
  MOUNTD_ASSIGN(
      const int removed,
      database_->Run(
          "DELETE FROM mounts WHERE allocation=?1 AND task=?2 AND name=?3",
          record.allocation, record.task, record.name));
  return removed > 0;
}

}  // namespace mountd::store
