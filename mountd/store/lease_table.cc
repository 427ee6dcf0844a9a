// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/store/lease_table.h"

namespace mountd::store {
namespace {

constexpr std::string_view kFenceColumns =
    "allocation,uid,lease,boot_id,on_lapse,stop_tasks,cgroup,state,lifted,"
    "lapse_reason,lapsed_boot_us,lapsed_wall_us,stopped_boot_us,"
    "stopped_wall_us,searched_boot_us,searched_wall_us,done_boot_us,"
    "done_wall_us,had_tasks,copies,handed_out,volumes_detached,error,attempts,"
    "traceparent,request_id";

LeaseRecord ReadLease(const Row& row) {
  LeaseRecord lease;
  lease.key = {static_cast<std::uint32_t>(row.Int(0)), row.Text(1)};
  lease.allocation = row.Text(2);
  lease.scope = row.Text(3);
  lease.kind = static_cast<LeaseKind>(row.Int(4));
  lease.timeout_ms = row.Bits(5);
  lease.on_lapse = static_cast<OnLapse>(row.Int(6));
  lease.stop_tasks = static_cast<exec::TaskStop>(row.Int(7));
  lease.state = static_cast<LeaseState>(row.Int(8));
  lease.boot_id = row.Text(9);
  lease.deadline_boot_us = row.Bits(10);
  lease.reason = row.Text(11);
  lease.traceparent = row.Text(12);
  lease.request_id = row.Text(13);
  return lease;
}

FenceRecord ReadFence(const Row& row) {
  FenceRecord fence;
  fence.allocation = row.Text(0);
  fence.lease = {static_cast<std::uint32_t>(row.Int(1)), row.Text(2)};
  fence.boot_id = row.Text(3);
  fence.on_lapse = static_cast<OnLapse>(row.Int(4));
  fence.stop_tasks = static_cast<exec::TaskStop>(row.Int(5));
  fence.cgroup = row.Bits(6);
  fence.state = static_cast<FenceState>(row.Int(7));
  fence.lifted = row.Int(8) != 0;
  fence.lapse_reason = row.Text(9);
  fence.lapsed = {row.Bits(10), row.Bits(11)};
  fence.tasks_stopped = {row.Bits(12), row.Bits(13)};
  fence.searched = {row.Bits(14), row.Bits(15)};
  fence.done = {row.Bits(16), row.Bits(17)};
  fence.had_tasks = row.Int(18) != 0;
  fence.copies = row.Text(19);
  fence.handed_out = static_cast<std::uint32_t>(row.Int(20));
  fence.volumes_detached = row.Int(21) != 0;
  fence.error = row.Text(22);
  fence.attempts = static_cast<std::uint32_t>(row.Int(23));
  fence.traceparent = row.Text(24);
  fence.request_id = row.Text(25);
  return fence;
}

}  // namespace

Result<std::string> LeaseTable::BootId() {
  std::string boot;
  MOUNTD_TRY(database_->Query("SELECT value FROM meta WHERE name='boot_id'",
                              [&](const Row& row) { boot = row.Text(0); }));
  return boot;
}

Result<void> LeaseTable::PutLease(const LeaseRecord& lease) {
  MOUNTD_TRY(database_->Run(
      "INSERT OR REPLACE INTO leases(uid,name,allocation,scope,kind,"
      "timeout_ms,on_lapse,stop_tasks,state,boot_id,deadline_boot_us,reason,"
      "traceparent,request_id) "
      "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14)",
      lease.key.uid, lease.key.name, lease.allocation, lease.scope,
      static_cast<int>(lease.kind), lease.timeout_ms,
      static_cast<int>(lease.on_lapse), static_cast<int>(lease.stop_tasks),
      static_cast<int>(lease.state), lease.boot_id, lease.deadline_boot_us,
      lease.reason, lease.traceparent, lease.request_id));
  return Ok();
}

Result<std::vector<LeaseRecord>> LeaseTable::ListLeases() {
  std::vector<LeaseRecord> all;
  MOUNTD_TRY(database_->Query(
      "SELECT uid,name,allocation,scope,kind,timeout_ms,on_lapse,stop_tasks,"
      "state,boot_id,deadline_boot_us,reason,traceparent,request_id FROM "
      "leases "
      "ORDER BY uid,name",
      [&](const Row& row) { all.push_back(ReadLease(row)); }));
  return all;
}

Result<void> LeaseTable::RemoveLease(const LeaseKey& key) {
  MOUNTD_TRY(database_->Run("DELETE FROM leases WHERE uid=?1 AND name=?2",
                            key.uid, key.name));
  return Ok();
}

Result<void> LeaseTable::BeginFences(const LeaseRecord& lease,
                                     const std::vector<FenceRecord>& fences) {
  return database_->Transaction([&]() -> Result<void> {
    MOUNTD_TRY(PutLease(lease));
    for (const FenceRecord& fence : fences) {
      MOUNTD_TRY(PutFence(fence));
    }
    return Ok();
  });
}

Result<void> LeaseTable::PutFence(const FenceRecord& fence) {
  MOUNTD_TRY(database_->Run(
      std::string("INSERT OR REPLACE INTO fences(")
          .append(kFenceColumns)
          .append(") VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,"
                  "?15,?16,?17,?18,?19,?20,?21,?22,?23,?24,?25,?26)"),
      fence.allocation, fence.lease.uid, fence.lease.name, fence.boot_id,
      static_cast<int>(fence.on_lapse), static_cast<int>(fence.stop_tasks),
      fence.cgroup, static_cast<int>(fence.state),
      static_cast<int>(fence.lifted), fence.lapse_reason, fence.lapsed.boot_us,
      fence.lapsed.wall_us, fence.tasks_stopped.boot_us,
      fence.tasks_stopped.wall_us, fence.searched.boot_us,
      fence.searched.wall_us, fence.done.boot_us, fence.done.wall_us,
      static_cast<int>(fence.had_tasks), fence.copies, fence.handed_out,
      static_cast<int>(fence.volumes_detached), fence.error, fence.attempts,
      fence.traceparent, fence.request_id));
  if (fence.state != FenceState::kDone) {
    return Ok();
  }
  // Orders by rowid, because the row that was written last has the highest.
  // Times are no help: those of different boots cannot be compared, and a wall
  // clock may be set back.
  MOUNTD_TRY(database_->Run(
      "DELETE FROM fences WHERE uid=?1 AND state=?2 AND rowid<=(SELECT rowid "
      "FROM fences WHERE uid=?1 AND state=?2 ORDER BY rowid DESC LIMIT 1 "
      "OFFSET ?3) AND allocation NOT IN(SELECT id FROM allocations)",
      fence.lease.uid, static_cast<int>(FenceState::kDone), kFencesPerUid));
  return Ok();
}

Result<std::optional<FenceRecord>> LeaseTable::GetFence(
    const std::string& allocation) {
  std::optional<FenceRecord> found;
  MOUNTD_TRY(database_->Query(
      std::string("SELECT ")
          .append(kFenceColumns)
          .append(" FROM fences WHERE allocation=?1"),
      [&](const Row& row) { found = ReadFence(row); }, allocation));
  return found;
}

Result<std::vector<FenceRecord>> LeaseTable::ListFences() {
  std::vector<FenceRecord> all;
  MOUNTD_TRY(database_->Query(
      std::string("SELECT ")
          .append(kFenceColumns)
          .append(" FROM fences WHERE lifted=0 ORDER BY allocation"),
      [&](const Row& row) { all.push_back(ReadFence(row)); }));
  return all;
}

Result<void> LeaseTable::PutLeaseAndLift(
    const LeaseRecord& lease, const std::vector<std::string>& allocations) {
  return database_->Transaction([&]() -> Result<void> {
    MOUNTD_TRY(PutLease(lease));
    for (const std::string& allocation : allocations) {
      MOUNTD_TRY(database_->Run(
          "UPDATE fences SET lifted=1 WHERE allocation=?1", allocation));
    }
    return Ok();
  });
}

Result<void> LeaseTable::RemoveFence(const std::string& allocation) {
  MOUNTD_TRY(
      database_->Run("DELETE FROM fences WHERE allocation=?1", allocation));
  return Ok();
}

Result<std::set<std::uint32_t>> LeaseTable::UsersToTell() {
  std::set<std::uint32_t> all;
  MOUNTD_TRY(database_->Query(
      "SELECT DISTINCT uid FROM fences WHERE state=?1 AND told=0",
      [&](const Row& row) {
        all.insert(static_cast<std::uint32_t>(row.Int(0)));
      },
      static_cast<int>(FenceState::kDone)));
  return all;
}

Result<std::vector<FenceRecord>> LeaseTable::ListUntold(std::uint32_t uid,
                                                        std::size_t most) {
  std::vector<FenceRecord> all;
  MOUNTD_TRY(database_->Query(
      std::string("SELECT ")
          .append(kFenceColumns)
          .append(" FROM fences WHERE uid=?1 AND state=?2 AND told=0 ORDER BY "
                  "rowid LIMIT ?3"),
      [&](const Row& row) { all.push_back(ReadFence(row)); }, uid,
      static_cast<int>(FenceState::kDone), most));
  return all;
}

Result<void> LeaseTable::SetTold(const std::vector<FenceRecord>& fences) {
  return database_->Transaction([&]() -> Result<void> {
    for (const FenceRecord& fence : fences) {
      MOUNTD_TRY(database_->Run(
          "UPDATE fences SET told=1 WHERE allocation=?1 AND uid=?2 AND "
          "state=?3 AND boot_id=?4 AND done_boot_us=?5",
          fence.allocation, fence.lease.uid,
          static_cast<int>(FenceState::kDone), fence.boot_id,
          fence.done.boot_us));
    }
    return Ok();
  });
}

Result<void> LeaseDeadlineTable::PutDeadline(const LeaseKey& key,
                                             std::uint64_t deadline_boot_us) {
  MOUNTD_TRY(database_->Run(
      "INSERT OR REPLACE INTO lease_deadlines(uid,name,deadline_boot_us) "
      "VALUES(?1,?2,?3)",
      key.uid, key.name, deadline_boot_us));
  return Ok();
}

Result<std::optional<std::uint64_t>> LeaseDeadlineTable::GetDeadline(
    const LeaseKey& key) {
  std::optional<std::uint64_t> found;
  MOUNTD_TRY(database_->Query(
      "SELECT deadline_boot_us FROM lease_deadlines WHERE uid=?1 AND name=?2",
      [&](const Row& row) { found = row.Bits(0); }, key.uid, key.name));
  return found;
}

Result<bool> LeaseDeadlineTable::HasAny(std::uint32_t uid) {
  bool has_any = false;
  MOUNTD_TRY(database_->Query(
      "SELECT 1 FROM lease_deadlines WHERE uid=?1 LIMIT 1",
      [&](const Row& /*row*/) { has_any = true; }, uid));
  return has_any;
}

Result<void> LeaseDeadlineTable::RemoveDeadline(const LeaseKey& key) {
  MOUNTD_TRY(
      database_->Run("DELETE FROM lease_deadlines WHERE uid=?1 AND name=?2",
                     key.uid, key.name));
  return Ok();
}

}  // namespace mountd::store
