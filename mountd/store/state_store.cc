// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/store/state_store.h"

#include <array>

namespace mountd::store {
namespace {

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
// Rowids ascend, so the scope whose epoch was raised last has the highest
// rowid.
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
constexpr std::string_view kReceiptNames = R"sql(
ALTER TABLE receipts ADD COLUMN traceparent TEXT NOT NULL DEFAULT '';
ALTER TABLE receipts ADD COLUMN request_id TEXT NOT NULL DEFAULT '';
)sql";
constexpr std::string_view kLeases = R"sql(
ALTER TABLE allocations ADD COLUMN lease_required INTEGER NOT NULL DEFAULT 0;
CREATE TABLE leases(
  uid INTEGER NOT NULL, name TEXT NOT NULL, allocation TEXT NOT NULL,
  scope TEXT NOT NULL, kind INTEGER NOT NULL, timeout_ms INTEGER NOT NULL,
  on_lapse INTEGER NOT NULL, stop_tasks INTEGER NOT NULL,
  state INTEGER NOT NULL, boot_id TEXT NOT NULL,
  deadline_boot_us INTEGER NOT NULL, reason TEXT NOT NULL,
  PRIMARY KEY(uid, name));
CREATE TABLE fences(
  allocation TEXT PRIMARY KEY, uid INTEGER NOT NULL, lease TEXT NOT NULL,
  boot_id TEXT NOT NULL, on_lapse INTEGER NOT NULL,
  stop_tasks INTEGER NOT NULL, cgroup INTEGER NOT NULL,
  state INTEGER NOT NULL, lifted INTEGER NOT NULL, lapse_reason TEXT NOT NULL,
  lapsed_boot_us INTEGER NOT NULL, lapsed_wall_us INTEGER NOT NULL,
  stopped_boot_us INTEGER NOT NULL, stopped_wall_us INTEGER NOT NULL,
  searched_boot_us INTEGER NOT NULL, searched_wall_us INTEGER NOT NULL,
  done_boot_us INTEGER NOT NULL, done_wall_us INTEGER NOT NULL,
  had_tasks INTEGER NOT NULL, copies TEXT NOT NULL,
  handed_out INTEGER NOT NULL, volumes_detached INTEGER NOT NULL,
  error TEXT NOT NULL, attempts INTEGER NOT NULL);
CREATE INDEX fences_by_uid ON fences(uid, state, done_wall_us);
)sql";
constexpr std::string_view kFormerNodeIds = R"sql(
ALTER TABLE plugin_instances ADD COLUMN former_node_ids TEXT NOT NULL DEFAULT '';
)sql";
// Marks old fences as reported, because the mountd that made this store
// reported each fence that was done, unless it was killed. 2 is
// FenceState::kDone.
constexpr std::string_view kFencesTold = R"sql(
ALTER TABLE fences ADD COLUMN told INTEGER NOT NULL DEFAULT 0;
UPDATE fences SET told=1 WHERE state=2;
)sql";
// There is no foreign key, because a row outlives its allocation.
constexpr std::string_view kUnchecked = R"sql(
CREATE TABLE unchecked(
  serial INTEGER PRIMARY KEY AUTOINCREMENT, allocation TEXT NOT NULL,
  uid INTEGER NOT NULL, cgroup INTEGER NOT NULL,
  UNIQUE(allocation, uid, cgroup));
DROP INDEX fences_by_uid;
CREATE INDEX fences_by_uid ON fences(uid, state);
)sql";
constexpr std::string_view kLeaseNames = R"sql(
ALTER TABLE leases ADD COLUMN traceparent TEXT NOT NULL DEFAULT '';
ALTER TABLE leases ADD COLUMN request_id TEXT NOT NULL DEFAULT '';
ALTER TABLE fences ADD COLUMN traceparent TEXT NOT NULL DEFAULT '';
ALTER TABLE fences ADD COLUMN request_id TEXT NOT NULL DEFAULT '';
)sql";
constexpr std::array<std::string_view, 15> kStateSchema = {
    kStateSchema1,
    "ALTER TABLE allocations ADD COLUMN cgroup INTEGER NOT NULL DEFAULT 0",
    kPluginInstances,
    "ALTER TABLE plugins ADD COLUMN declared INTEGER NOT NULL DEFAULT 0",
    kVolumesSchema,
    kScopes,
    kFileSystems,
    kReceiptNames,
    kLeases,
    kFormerNodeIds,
    kFencesTold,
    "ALTER TABLE allocations ADD COLUMN group_id INTEGER NOT NULL DEFAULT 0",
    kUnchecked,
    kLeaseNames,
    "ALTER TABLE plugins ADD COLUMN removed_node_ids TEXT NOT NULL DEFAULT "
    "''"};

}  // namespace

Result<std::unique_ptr<StateStore>> StateStore::Open(
    const std::string& path, const std::string& boot_id) {
  MOUNTD_ASSIGN(
      std::unique_ptr<Database> database,
      Database::Open(path, Database::Durability::kPower, kStateSchema));
  // A removal that was cut off does not count, so the plugin stays.
  MOUNTD_TRY(database->Run("UPDATE plugins SET removing=0"));
  std::string last_boot;
  MOUNTD_TRY(database->Query("SELECT value FROM meta WHERE name='boot_id'",
                             [&](const Row& row) { last_boot = row.Text(0); }));
  if (last_boot != boot_id) {
    MOUNTD_TRY(database->Transaction([&]() -> Result<void> {
      // Keep kUnpublishing. Otherwise somebody could publish the volume again,
      // and the pending tear-down would unpublish that new use.
      MOUNTD_TRY(database->Run(
          "UPDATE publications SET state=iif(state=?2,?2,?1), mount_id=0, "
          "device=0, was_published=0, file_system=''",
          static_cast<int>(PublicationState::kUncertain),
          static_cast<int>(PublicationState::kUnpublishing)));
      MOUNTD_TRY(database->Run("UPDATE volumes SET state=?1",
                               static_cast<int>(VolumeState::kUncertain)));
      MOUNTD_TRY(database->Run("UPDATE allocations SET cgroup=0, group_id=0"));
      MOUNTD_TRY(database->Run("UPDATE departed SET cgroup=0, file_system=''"));
      // All processes ended with the earlier boot.
      MOUNTD_TRY(database->Run("DELETE FROM unchecked"));
      // Mounts and networks ended with the earlier boot, so their tear-downs
      // are done. Calls to a plugin and answers to an agent are still pending.
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

}  // namespace mountd::store
