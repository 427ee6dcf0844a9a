// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/store/allocation_table.h"

#include "mountd/store/columns.h"

namespace mountd::store {
namespace {

constexpr int kReceiptsPerUid = 10'000;
constexpr int kScopesPerUid = 10'000;

AllocationRecord ReadAllocation(const Row& row) {
  return {row.Text(0),
          static_cast<std::uint32_t>(row.Int(1)),
          static_cast<std::uint32_t>(row.Int(2)),
          row.Text(3),
          static_cast<AllocationState>(row.Int(4)),
          row.Bits(5),
          row.Int(6) != 0,
          static_cast<std::uint32_t>(row.Int(7))};
}

}  // namespace

Result<void> AllocationTable::AddAllocation(const AllocationRecord& record) {
  return database_->Transaction([&]() -> Result<void> {
    // An allocation that uses a name again begins a new history, so remove the
    // user's old receipt. Another user's receipt stays, because it is that
    // user's proof.
    MOUNTD_TRY(
        database_->Run("DELETE FROM receipts WHERE allocation=?1 AND uid=?2",
                       record.id, record.uid));
    MOUNTD_ASSIGN(const std::optional<ReceiptRecord> other,
                  GetReceipt(record.id));
    if (other) {
      return MakeError(
          Code::kAlreadyExists, "prepare", "allocation " + record.id,
          "another user has a receipt of this name; choose another name");
    }
    MOUNTD_TRY(database_->Run(
        "INSERT INTO allocations(id,uid,gid,scope,state,"
        "cgroup,lease_required,group_id) VALUES(?1,?2,?3,?4,?5,?6,?7,?8)",
        record.id, record.uid, record.gid, record.scope,
        static_cast<int>(record.state), record.cgroup,
        static_cast<int>(record.lease_required), record.group));
    return Ok();
  });
}

Result<std::optional<AllocationRecord>> AllocationTable::GetAllocation(
    const std::string& id) {
  std::optional<AllocationRecord> found;
  MOUNTD_TRY(database_->Query(
      "SELECT id,uid,gid,scope,state,cgroup,lease_required,group_id FROM "
      "allocations "
      "WHERE id=?1",
      [&](const Row& row) { found = ReadAllocation(row); }, id));
  return found;
}

Result<std::vector<AllocationRecord>> AllocationTable::ListAllocations() {
  std::vector<AllocationRecord> all;
  MOUNTD_TRY(database_->Query(
      "SELECT id,uid,gid,scope,state,cgroup,lease_required,group_id FROM "
      "allocations "
      "ORDER BY id",
      [&](const Row& row) { all.push_back(ReadAllocation(row)); }));
  return all;
}

Result<std::vector<AllocationRecord>> AllocationTable::AllocationsOf(
    std::uint32_t uid, const std::string& scope) {
  std::vector<AllocationRecord> all;
  MOUNTD_TRY(database_->Query(
      "SELECT id,uid,gid,scope,state,cgroup,lease_required,group_id FROM "
      "allocations "
      "WHERE uid=?1 AND scope=?2 ORDER BY id",
      [&](const Row& row) { all.push_back(ReadAllocation(row)); }, uid, scope));
  return all;
}

Result<std::optional<std::uint64_t>> AllocationTable::GetEpoch(
    std::uint32_t uid, const std::string& scope) {
  std::optional<std::uint64_t> epoch;
  MOUNTD_TRY(database_->Query(
      "SELECT epoch FROM scopes WHERE uid=?1 AND scope=?2",
      [&](const Row& row) { epoch = row.Bits(0); }, uid, scope));
  return epoch;
}

Result<std::uint64_t> AllocationTable::RaiseEpoch(std::uint32_t uid,
                                                  const std::string& scope,
                                                  std::uint64_t epoch) {
  std::uint64_t highest = epoch;
  MOUNTD_TRY(database_->Transaction([&]() -> Result<void> {
    MOUNTD_ASSIGN(const std::optional<std::uint64_t> known,
                  GetEpoch(uid, scope));
    if (known && *known >= epoch) {
      highest = *known;
      return Ok();
    }
    // Delete and insert the row again, so that the scope's rowid becomes the
    // highest.
    MOUNTD_TRY(database_->Run("DELETE FROM scopes WHERE uid=?1 AND scope=?2",
                              uid, scope));
    MOUNTD_TRY(ForgetScopes(uid));
    MOUNTD_TRY(
        database_->Run("INSERT INTO scopes(uid,scope,epoch) VALUES(?1,?2,?3)",
                       uid, scope, epoch));
    return Ok();
  }));
  return highest;
}

// Makes room for one scope: forgets the oldest scope without an allocation,
// because Reconcile would find nothing to release in it.
Result<void> AllocationTable::ForgetScopes(std::uint32_t uid) {
  int count = 0;
  MOUNTD_TRY(database_->Query(
      "SELECT count(*) FROM scopes WHERE uid=?1",
      [&](const Row& row) { count = static_cast<int>(row.Int(0)); }, uid));
  if (count < kScopesPerUid) {
    return Ok();
  }
  MOUNTD_ASSIGN(
      const int gone,
      database_->Run("DELETE FROM scopes WHERE rowid=(SELECT s.rowid FROM "
                     "scopes s WHERE s.uid=?1 AND NOT EXISTS(SELECT 1 FROM "
                     "allocations a WHERE a.uid=s.uid AND a.scope=s.scope) "
                     "ORDER BY s.rowid LIMIT 1)",
                     uid));
  return gone != 0 ? Ok()
                   : Result<void>(MakeError(Code::kResourceExhausted,
                                            "reconcile", "scope",
                                            "this user has too many scopes"));
}

Result<std::uint32_t> AllocationTable::CountAllocations(std::uint32_t uid) {
  std::uint32_t count = 0;
  MOUNTD_TRY(database_->Query(
      "SELECT count(*) FROM allocations WHERE uid=?1",
      [&](const Row& row) { count = static_cast<std::uint32_t>(row.Int(0)); },
      uid));
  return count;
}

Result<void> AllocationTable::SetAllocationState(const std::string& id,
                                                 AllocationState state) {
  MOUNTD_TRY(database_->Run("UPDATE allocations SET state=?2 WHERE id=?1", id,
                            static_cast<int>(state)));
  return Ok();
}

Result<void> AllocationTable::SetAllocationCgroup(const std::string& id,
                                                  std::uint64_t cgroup) {
  MOUNTD_TRY(database_->Run("UPDATE allocations SET cgroup=?2 WHERE id=?1", id,
                            cgroup));
  return Ok();
}

Result<void> AllocationTable::SetLeaseRequired(const std::string& id) {
  MOUNTD_TRY(database_->Run(
      "UPDATE allocations SET lease_required=1 WHERE id=?1", id));
  return Ok();
}

Result<void> AllocationTable::SetAllocationGroup(const std::string& id,
                                                 std::uint32_t group) {
  MOUNTD_TRY(database_->Run("UPDATE allocations SET group_id=?2 WHERE id=?1",
                            id, group));
  return Ok();
}

Result<ReceiptRecord> AllocationTable::FinishAllocation(ReceiptRecord receipt) {
  MOUNTD_TRY(database_->Transaction([&]() -> Result<void> {
    MOUNTD_TRY(database_->Query(
        "SELECT plugin,volume_id,unstaged,owed FROM detached "
        "WHERE allocation=?1 ORDER BY plugin,volume_id",
        [&](const Row& row) {
          receipt.volumes.push_back(
              {row.Text(0), row.Text(1), row.Int(2) != 0, row.Int(3) != 0});
        },
        receipt.allocation));
    // Delete these rows first, because they refer to the allocation (foreign
    // key).
    MOUNTD_TRY(database_->Run("DELETE FROM detached WHERE allocation=?1",
                              receipt.allocation));
    MOUNTD_TRY(database_->Run("DELETE FROM allocations WHERE id=?1",
                              receipt.allocation));
    MOUNTD_TRY(database_->Run(
        // An unstage belongs to a plugin. Its object begins with the plugin's
        // name, and an allocation may have the same name.
        "DELETE FROM owed WHERE kind<>?2 AND (object=?1 OR "
        "substr(object,1,length(?1)+1)=?1||'/')",
        receipt.allocation, static_cast<int>(OwedKind::kUnstage)));
    MOUNTD_TRY(database_->Run(
        // A replaced receipt gets a new serial, so it counts as the newest.
        "INSERT OR REPLACE INTO receipts(allocation,uid,released_at_us,"
        "volumes,traceparent,request_id) VALUES(?1,?2,?3,?4,?5,?6)",
        receipt.allocation, receipt.uid, receipt.released_at_us,
        ToColumn(receipt.volumes), receipt.traceparent, receipt.request_id));
    MOUNTD_TRY(database_->Run(
        "DELETE FROM receipts WHERE uid=?1 AND serial<=(SELECT serial FROM "
        "receipts WHERE uid=?1 ORDER BY serial DESC LIMIT 1 OFFSET ?2)",
        receipt.uid, kReceiptsPerUid));
    MOUNTD_TRY(database_->Run(
        "DELETE FROM unchecked WHERE uid=?1 AND allocation NOT IN(SELECT "
        "allocation FROM receipts) AND allocation NOT IN(SELECT id FROM "
        "allocations)",
        receipt.uid));
    return database_->Query(
        "SELECT serial FROM receipts WHERE allocation=?1",
        [&](const Row& row) { receipt.serial = row.Bits(0); },
        receipt.allocation);
  }));
  return receipt;
}

Result<std::optional<ReceiptRecord>> AllocationTable::GetReceipt(
    const std::string& allocation) {
  std::optional<ReceiptRecord> found;
  MOUNTD_TRY(database_->Query(
      "SELECT allocation,uid,serial,released_at_us,volumes,traceparent,"
      "request_id FROM receipts WHERE allocation=?1",
      [&](const Row& row) {
        found = ReceiptRecord{
            row.Text(0), static_cast<std::uint32_t>(row.Int(1)), row.Bits(2),
            row.Bits(3), ReceiptVolumesFromColumn(row.Text(4)),  row.Text(5),
            row.Text(6)};
      },
      allocation));
  return found;
}

}  // namespace mountd::store
