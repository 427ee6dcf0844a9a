// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/store/state_store.h"

#include <array>

#include "mountd/store/columns.h"

namespace mountd::store {
namespace {

constexpr int kReceiptsPerUid = 10'000;
constexpr int kScopesPerUid = 10'000;
constexpr std::string_view kStateSchema1 = R"sql(
CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE allocations(
  id TEXT PRIMARY KEY, uid INTEGER NOT NULL, gid INTEGER NOT NULL,
  scope TEXT NOT NULL, state INTEGER NOT NULL);
CREATE TABLE plugins(
  id TEXT PRIMARY KEY, type TEXT NOT NULL, uid INTEGER NOT NULL,
  allocation TEXT NOT NULL, mount_dir TEXT NOT NULL,
  removing INTEGER NOT NULL DEFAULT 0);
CREATE TABLE volumes(
  key TEXT PRIMARY KEY, plugin TEXT NOT NULL REFERENCES plugins(id),
  volume_id TEXT NOT NULL, uid INTEGER NOT NULL,
  state INTEGER NOT NULL, access_mode INTEGER NOT NULL,
  fs_type TEXT NOT NULL, capability_digest TEXT NOT NULL,
  publish_context TEXT NOT NULL, volume_context TEXT NOT NULL,
  UNIQUE(plugin, volume_id));
CREATE TABLE publications(
  key TEXT NOT NULL REFERENCES volumes(key), allocation TEXT NOT NULL
    REFERENCES allocations(id), alias TEXT NOT NULL,
  read_only INTEGER NOT NULL, state INTEGER NOT NULL,
  mount_id INTEGER NOT NULL,
  PRIMARY KEY(allocation, alias), UNIQUE(key, allocation));
CREATE TABLE detached(
  allocation TEXT NOT NULL REFERENCES allocations(id), plugin TEXT NOT NULL,
  volume_id TEXT NOT NULL, unstaged INTEGER NOT NULL,
  PRIMARY KEY(allocation, plugin, volume_id));
CREATE TABLE receipts(
  serial INTEGER PRIMARY KEY AUTOINCREMENT, allocation TEXT UNIQUE NOT NULL,
  uid INTEGER NOT NULL, released_at_us INTEGER NOT NULL,
  volumes TEXT NOT NULL);
CREATE INDEX receipts_by_uid ON receipts(uid, serial);
CREATE TABLE owed(
  id INTEGER PRIMARY KEY AUTOINCREMENT, kind INTEGER NOT NULL,
  object TEXT NOT NULL, uid INTEGER NOT NULL, reason TEXT NOT NULL,
  attempts INTEGER NOT NULL, since_us INTEGER NOT NULL,
  UNIQUE(kind, object));
)sql";
constexpr std::string_view kPluginInstances = R"sql(
CREATE TABLE plugin_instances(
  serial INTEGER PRIMARY KEY AUTOINCREMENT,
  plugin TEXT NOT NULL REFERENCES plugins(id), type TEXT NOT NULL,
  allocation TEXT NOT NULL, mount_dir TEXT NOT NULL,
  stage_publish_base_dir TEXT NOT NULL DEFAULT '',
  health_timeout_ms INTEGER NOT NULL DEFAULT 0,
  fingerprint TEXT NOT NULL DEFAULT '',
  UNIQUE(plugin, type, allocation));
INSERT INTO plugin_instances(plugin,type,allocation,mount_dir)
  SELECT id,type,allocation,mount_dir FROM plugins;
ALTER TABLE plugins DROP COLUMN type;
ALTER TABLE plugins DROP COLUMN allocation;
ALTER TABLE plugins DROP COLUMN mount_dir;
ALTER TABLE plugins ADD COLUMN bare_directories INTEGER NOT NULL DEFAULT 0;
)sql";
constexpr std::string_view kVolumesSchema = R"sql(
ALTER TABLE volumes ADD COLUMN block INTEGER NOT NULL DEFAULT 0;
ALTER TABLE volumes ADD COLUMN volume_mount_group TEXT NOT NULL DEFAULT '';
ALTER TABLE volumes ADD COLUMN needs INTEGER NOT NULL DEFAULT 0;
ALTER TABLE publications ADD COLUMN device INTEGER NOT NULL DEFAULT 0;
ALTER TABLE publications ADD COLUMN was_published INTEGER NOT NULL DEFAULT 1;
ALTER TABLE detached ADD COLUMN owed INTEGER NOT NULL DEFAULT 0;
CREATE TABLE departed(
  key TEXT NOT NULL REFERENCES volumes(key), allocation TEXT NOT NULL,
  target_left INTEGER NOT NULL, PRIMARY KEY(key, allocation));
)sql";
// Rows have ascending rowids, so the scope whose epoch was raised last comes
// last.
constexpr std::string_view kScopes = R"sql(
CREATE TABLE scopes(
  uid INTEGER NOT NULL, scope TEXT NOT NULL, epoch INTEGER NOT NULL,
  PRIMARY KEY(uid, scope));
CREATE INDEX allocations_by_scope ON allocations(uid, scope);
)sql";
constexpr std::string_view kFileSystems = R"sql(
ALTER TABLE publications ADD COLUMN file_system TEXT NOT NULL DEFAULT '';
ALTER TABLE departed ADD COLUMN file_system TEXT NOT NULL DEFAULT '';
ALTER TABLE departed ADD COLUMN cgroup INTEGER NOT NULL DEFAULT 0;
)sql";
constexpr std::array<std::string_view, 7> kStateSchema = {
    kStateSchema1,
    "ALTER TABLE allocations ADD COLUMN cgroup INTEGER NOT NULL DEFAULT 0",
    kPluginInstances,
    "ALTER TABLE plugins ADD COLUMN declared INTEGER NOT NULL DEFAULT 0",
    kVolumesSchema,
    kScopes,
    kFileSystems};

AllocationRecord ReadAllocation(const Row& row) {
  return {row.Text(0),
          static_cast<std::uint32_t>(row.Int(1)),
          static_cast<std::uint32_t>(row.Int(2)),
          row.Text(3),
          static_cast<AllocationState>(row.Int(4)),
          row.Bits(5)};
}

}  // namespace

Result<std::unique_ptr<StateStore>> StateStore::Open(
    const std::string& path, const std::string& boot_id) {
  MOUNTD_ASSIGN(
      std::unique_ptr<Database> database,
      Database::Open(path, Database::Durability::kPower, kStateSchema));
  // A removal that was cut off has not happened.
  MOUNTD_TRY(database->Run("UPDATE plugins SET removing=0"));
  std::string last_boot;
  MOUNTD_TRY(database->Query("SELECT value FROM meta WHERE name='boot_id'",
                             [&](const Row& row) { last_boot = row.Text(0); }));
  if (last_boot != boot_id) {
    MOUNTD_TRY(database->Transaction([&]() -> Result<void> {
      // Keep kUnpublishing. Otherwise the volume could be published again, and
      // the pending tear-down would unpublish that.
      MOUNTD_TRY(database->Run(
          "UPDATE publications SET state=iif(state=?2,?2,?1), mount_id=0, "
          "device=0, was_published=0, file_system=''",
          static_cast<int>(PublicationState::kUncertain),
          static_cast<int>(PublicationState::kUnpublishing)));
      MOUNTD_TRY(database->Run("UPDATE volumes SET state=?1",
                               static_cast<int>(VolumeState::kUncertain)));
      MOUNTD_TRY(database->Run("UPDATE allocations SET cgroup=0"));
      MOUNTD_TRY(database->Run("UPDATE departed SET cgroup=0, file_system=''"));
      // Mounts and networks ended with the boot, so their tear-downs are done.
      // Calls to a plugin and answers to an agent are still pending.
      MOUNTD_TRY(database->Run("DELETE FROM owed WHERE kind IN (?1,?2)",
                               static_cast<int>(OwedKind::kUnmount),
                               static_cast<int>(OwedKind::kTeardownNetwork)));
      MOUNTD_TRY(database->Run(
          "INSERT OR REPLACE INTO meta(name,value) VALUES('boot_id',?1)",
          boot_id));
      return Ok();
    }));
  }
  return std::unique_ptr<StateStore>(new StateStore(std::move(database)));
}

Result<void> StateStore::AddAllocation(const AllocationRecord& record) {
  return database_->Transaction([&]() -> Result<void> {
    // A name that is used again begins a new history, so the user's old receipt
    // goes. A receipt of another user stays, because it is that user's proof.
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
    MOUNTD_TRY(
        database_->Run("INSERT INTO allocations(id,uid,gid,scope,state,"
                       "cgroup) VALUES(?1,?2,?3,?4,?5,?6)",
                       record.id, record.uid, record.gid, record.scope,
                       static_cast<int>(record.state), record.cgroup));
    return Ok();
  });
}

Result<std::optional<AllocationRecord>> StateStore::GetAllocation(
    const std::string& id) {
  std::optional<AllocationRecord> found;
  MOUNTD_TRY(database_->Query(
      "SELECT id,uid,gid,scope,state,cgroup FROM allocations WHERE id=?1",
      [&](const Row& row) { found = ReadAllocation(row); }, id));
  return found;
}

Result<std::vector<AllocationRecord>> StateStore::ListAllocations() {
  std::vector<AllocationRecord> all;
  MOUNTD_TRY(database_->Query(
      "SELECT id,uid,gid,scope,state,cgroup FROM allocations ORDER BY id",
      [&](const Row& row) { all.push_back(ReadAllocation(row)); }));
  return all;
}

Result<std::vector<AllocationRecord>> StateStore::AllocationsOf(
    std::uint32_t uid, const std::string& scope) {
  std::vector<AllocationRecord> all;
  MOUNTD_TRY(database_->Query(
      "SELECT id,uid,gid,scope,state,cgroup FROM allocations WHERE uid=?1 AND "
      "scope=?2 ORDER BY id",
      [&](const Row& row) { all.push_back(ReadAllocation(row)); }, uid, scope));
  return all;
}

Result<std::optional<std::uint64_t>> StateStore::GetEpoch(
    std::uint32_t uid, const std::string& scope) {
  std::optional<std::uint64_t> epoch;
  MOUNTD_TRY(database_->Query(
      "SELECT epoch FROM scopes WHERE uid=?1 AND scope=?2",
      [&](const Row& row) { epoch = row.Bits(0); }, uid, scope));
  return epoch;
}

Result<std::uint64_t> StateStore::RaiseEpoch(std::uint32_t uid,
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
    // Inserted again, so that the scope's rowid becomes the highest.
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
// because Reconcile has nothing to release there.
Result<void> StateStore::ForgetScopes(std::uint32_t uid) {
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

Result<std::uint32_t> StateStore::CountAllocations(std::uint32_t uid) {
  std::uint32_t count = 0;
  MOUNTD_TRY(database_->Query(
      "SELECT count(*) FROM allocations WHERE uid=?1",
      [&](const Row& row) { count = static_cast<std::uint32_t>(row.Int(0)); },
      uid));
  return count;
}

Result<void> StateStore::SetAllocationState(const std::string& id,
                                            AllocationState state) {
  MOUNTD_TRY(database_->Run("UPDATE allocations SET state=?2 WHERE id=?1", id,
                            static_cast<int>(state)));
  return Ok();
}

Result<void> StateStore::SetAllocationCgroup(const std::string& id,
                                             std::uint64_t cgroup) {
  MOUNTD_TRY(database_->Run("UPDATE allocations SET cgroup=?2 WHERE id=?1", id,
                            cgroup));
  return Ok();
}

Result<ReceiptRecord> StateStore::FinishAllocation(ReceiptRecord receipt) {
  MOUNTD_TRY(database_->Transaction([&]() -> Result<void> {
    MOUNTD_TRY(database_->Query(
        "SELECT plugin,volume_id,unstaged,owed FROM detached "
        "WHERE allocation=?1 ORDER BY plugin,volume_id",
        [&](const Row& row) {
          receipt.volumes.push_back(
              {row.Text(0), row.Text(1), row.Int(2) != 0, row.Int(3) != 0});
        },
        receipt.allocation));
    // These rows first, because they refer to the allocation (foreign key).
    MOUNTD_TRY(database_->Run("DELETE FROM detached WHERE allocation=?1",
                              receipt.allocation));
    MOUNTD_TRY(database_->Run("DELETE FROM allocations WHERE id=?1",
                              receipt.allocation));
    MOUNTD_TRY(database_->Run(
        // An unstage is the plugin's. Its object begins with the plugin's name,
        // which may be the allocation's too.
        "DELETE FROM owed WHERE kind<>?2 AND (object=?1 OR "
        "substr(object,1,length(?1)+1)=?1||'/')",
        receipt.allocation, static_cast<int>(OwedKind::kUnstage)));
    MOUNTD_TRY(database_->Run(
        // A replaced receipt gets a new serial, so it counts as the newest.
        "INSERT OR REPLACE INTO receipts(allocation,uid,released_at_us,"
        "volumes) VALUES(?1,?2,?3,?4)",
        receipt.allocation, receipt.uid, receipt.released_at_us,
        ToColumn(receipt.volumes)));
    MOUNTD_TRY(database_->Run(
        "DELETE FROM receipts WHERE uid=?1 AND serial<=(SELECT serial FROM "
        "receipts WHERE uid=?1 ORDER BY serial DESC LIMIT 1 OFFSET ?2)",
        receipt.uid, kReceiptsPerUid));
    return database_->Query(
        "SELECT serial FROM receipts WHERE allocation=?1",
        [&](const Row& row) { receipt.serial = row.Bits(0); },
        receipt.allocation);
  }));
  return receipt;
}

Result<std::optional<ReceiptRecord>> StateStore::GetReceipt(
    const std::string& allocation) {
  std::optional<ReceiptRecord> found;
  MOUNTD_TRY(database_->Query(
      "SELECT allocation,uid,serial,released_at_us,volumes FROM receipts "
      "WHERE allocation=?1",
      [&](const Row& row) {
        found = ReceiptRecord{
            row.Text(0), static_cast<std::uint32_t>(row.Int(1)), row.Bits(2),
            row.Bits(3), ReceiptVolumesFromColumn(row.Text(4))};
      },
      allocation));
  return found;
}

// Checks that no release has begun, because a release looks for the
// allocation's plugins only once.
Result<void> StateStore::CheckPrepared(const std::string& allocation) {
  MOUNTD_ASSIGN(const std::optional<AllocationRecord> found,
                GetAllocation(allocation));
  if (allocation.empty() ||
      (found && found->state == AllocationState::kPrepared)) {
    return Ok();
  }
  return MakeError(
      Code::kFailedPrecondition, "register", "allocation " + allocation,
      found ? "is being released; wait for its end" : "is not prepared");
}

Result<std::uint64_t> StateStore::PutPlugin(const PluginRecord& record) {
  std::uint64_t serial = 0;
  MOUNTD_TRY(database_->Transaction([&]() -> Result<void> {
    MOUNTD_TRY(CheckPrepared(record.allocation));
    MOUNTD_TRY(database_->Run(
        "INSERT INTO plugins(id,uid,bare_directories,declared) "
        "VALUES(?1,?2,?3,?4) ON CONFLICT(id) DO UPDATE SET uid=excluded.uid, "
        "bare_directories=excluded.bare_directories, "
        "declared=excluded.declared",
        record.id, record.uid, static_cast<int>(record.bare_directories),
        static_cast<int>(record.declared)));
    MOUNTD_TRY(database_->Run(
        "INSERT INTO plugin_instances(plugin,type,allocation,mount_dir,"
        "stage_publish_base_dir,health_timeout_ms) VALUES(?1,?2,?3,?4,?5,?6) "
        "ON CONFLICT(plugin,type,allocation) DO UPDATE SET "
        "mount_dir=excluded.mount_dir, "
        "stage_publish_base_dir=excluded.stage_publish_base_dir, "
        "health_timeout_ms=excluded.health_timeout_ms",
        record.id, record.type, record.allocation, record.mount_dir,
        record.stage_publish_base_dir, record.health_timeout_ms));
    return database_->Query(
        "SELECT serial FROM plugin_instances WHERE plugin=?1 AND type=?2 AND "
        "allocation=?3",
        [&](const Row& row) { serial = row.Bits(0); }, record.id, record.type,
        record.allocation);
  }));
  return serial;
}

Result<void> StateStore::BeginPluginRemoval(const std::string& id) {
  // One statement looks and marks, so no volume can be added in between.
  MOUNTD_ASSIGN(
      const int changed,
      database_->Run("UPDATE plugins SET removing=1 WHERE id=?1 AND "
                     "NOT EXISTS(SELECT 1 FROM volumes WHERE plugin=?1)",
                     id));
  if (changed == 0) {
    return MakeError(Code::kBusy, "unregister", "plugin " + id,
                     "its volumes are still in use");
  }
  return Ok();
}

Result<bool> StateStore::HasVolumesOfOthers(const std::string& plugin,
                                            const std::string& allocation) {
  bool found = false;
  MOUNTD_TRY(database_->Query(
      "SELECT EXISTS(SELECT 1 FROM volumes v WHERE v.plugin=?1 AND NOT "
      "EXISTS(SELECT 1 FROM publications p WHERE p.key=v.key AND "
      "p.allocation=?2)) OR EXISTS(SELECT 1 FROM volumes v JOIN publications p "
      "ON p.key=v.key WHERE v.plugin=?1 AND p.allocation<>?2)",
      [&](const Row& row) { found = row.Int(0) != 0; }, plugin, allocation));
  return found;
}

Result<void> StateStore::CancelPluginRemoval(const std::string& id) {
  MOUNTD_TRY(database_->Run("UPDATE plugins SET removing=0 WHERE id=?1", id));
  return Ok();
}

Result<void> StateStore::RemovePlugin(const std::string& id) {
  return database_->Transaction([&]() -> Result<void> {
    // The instances first, because they refer to the plugin (foreign key).
    MOUNTD_TRY(
        database_->Run("DELETE FROM plugin_instances WHERE plugin=?1", id));
    MOUNTD_TRY(database_->Run("DELETE FROM plugins WHERE id=?1", id));
    return Ok();
  });
}

Result<void> StateStore::RemovePluginInstance(std::uint64_t serial) {
  MOUNTD_TRY(
      database_->Run("DELETE FROM plugin_instances WHERE serial=?1", serial));
  return Ok();
}

Result<void> StateStore::SetFingerprint(std::uint64_t serial,
                                        const csi::Fingerprint& fingerprint) {
  MOUNTD_TRY(database_->Run(
      "UPDATE plugin_instances SET fingerprint=?2 WHERE serial=?1", serial,
      ToColumn(fingerprint)));
  return Ok();
}

Result<std::map<std::uint64_t, csi::Fingerprint>>
StateStore::ListFingerprints() {
  std::map<std::uint64_t, csi::Fingerprint> all;
  MOUNTD_TRY(database_->Query(
      "SELECT serial,fingerprint FROM plugin_instances WHERE fingerprint<>''",
      [&](const Row& row) {
        all.emplace(row.Bits(0), FingerprintFromColumn(row.Text(1)));
      }));
  return all;
}

Result<std::vector<PluginRecord>> StateStore::ListPlugins() {
  std::vector<PluginRecord> all;
  MOUNTD_TRY(database_->Query(
      "SELECT p.id,i.type,p.uid,i.allocation,i.mount_dir,"
      "i.stage_publish_base_dir,p.bare_directories,i.health_timeout_ms,"
      "p.declared,i.serial FROM plugins p LEFT JOIN plugin_instances i ON "
      "i.plugin=p.id "
      "ORDER BY p.id,i.serial",
      [&](const Row& row) {
        all.push_back({row.Text(0), row.Text(1),
                       static_cast<std::uint32_t>(row.Int(2)), row.Text(3),
                       row.Text(4), row.Text(5), row.Int(6) != 0, row.Bits(7),
                       row.Int(8) != 0, row.Bits(9)});
      }));
  return all;
}

Result<void> StateStore::AddOwed(const OwedRecord& record) {
  MOUNTD_TRY(database_->Run(
      "INSERT INTO owed(kind,object,uid,reason,attempts,since_us) "
      "VALUES(?1,?2,?3,?4,1,?5) ON CONFLICT(kind,object) DO UPDATE SET "
      "reason=excluded.reason, attempts=attempts+1",
      static_cast<int>(record.kind), record.object, record.uid, record.reason,
      record.since_us));
  ++owed_added_;
  return Ok();
}

Result<void> StateStore::RemoveOwed(OwedKind kind, const std::string& object) {
  // If nothing is pending, there is nothing to remove.
  if (nothing_owed_at_ == owed_added_) {
    return Ok();
  }
  MOUNTD_TRY(database_->Run("DELETE FROM owed WHERE kind=?1 AND object=?2",
                            static_cast<int>(kind), object));
  return Ok();
}

Result<bool> StateStore::IsOwed(std::uint64_t id) {
  bool found = false;
  MOUNTD_TRY(database_->Query(
      "SELECT 1 FROM owed WHERE id=?1",
      [&](const Row& /*row*/) { found = true; }, id));
  return found;
}

Result<bool> StateStore::IsOwed(OwedKind kind, const std::string& object) {
  bool found = false;
  MOUNTD_TRY(database_->Query(
      "SELECT 1 FROM owed WHERE kind=?1 AND object=?2",
      [&](const Row& /*row*/) { found = true; }, static_cast<int>(kind),
      object));
  return found;
}

Result<std::vector<OwedRecord>> StateStore::ListOwed() {
  std::vector<OwedRecord> all;
  // Read before the query, so that a record added meanwhile still counts.
  const std::uint64_t added = owed_added_;
  MOUNTD_TRY(database_->Query(
      "SELECT id,kind,object,uid,reason,attempts,since_us FROM owed "
      "ORDER BY id",
      [&](const Row& row) {
        all.push_back({row.Bits(0), static_cast<OwedKind>(row.Int(1)),
                       row.Text(2), static_cast<std::uint32_t>(row.Int(3)),
                       row.Text(4), static_cast<std::uint32_t>(row.Int(5)),
                       row.Bits(6)});
      }));
  if (all.empty()) {
    nothing_owed_at_ = added;
  }
  return all;
}

}  // namespace mountd::store
