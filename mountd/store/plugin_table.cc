// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/store/plugin_table.h"

#include "mountd/store/columns.h"

namespace mountd::store {

// Checks that no release of the allocation has begun, because a release looks
// for the allocation's plugins only once.
Result<void> PluginTable::CheckPrepared(const std::string& allocation) {
  MOUNTD_ASSIGN(const std::optional<AllocationRecord> found,
                allocations_.GetAllocation(allocation));
  if (allocation.empty() ||
      (found && found->state == AllocationState::kPrepared)) {
    return Ok();
  }
  return MakeError(
      Code::kFailedPrecondition, "register", "allocation " + allocation,
      found ? "is being released; wait for its end" : "is not prepared");
}

Result<std::uint64_t> PluginTable::PutPlugin(const PluginRecord& record) {
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

Result<void> PluginTable::BeginPluginRemoval(const std::string& id) {
  // One statement checks and marks, so no volume can be added in between.
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

Result<bool> PluginTable::HasVolumesOfOthers(const std::string& plugin,
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

Result<void> PluginTable::CancelPluginRemoval(const std::string& id) {
  MOUNTD_TRY(database_->Run("UPDATE plugins SET removing=0 WHERE id=?1", id));
  return Ok();
}

Result<void> PluginTable::RemovePlugin(const std::string& id) {
  return database_->Transaction([&]() -> Result<void> {
    // Delete the instances first, because they refer to the plugin (foreign
    // key).
    MOUNTD_TRY(
        database_->Run("DELETE FROM plugin_instances WHERE plugin=?1", id));
    MOUNTD_TRY(database_->Run("DELETE FROM plugins WHERE id=?1", id));
    return Ok();
  });
}

Result<void> PluginTable::RemovePluginInstance(std::uint64_t serial) {
  MOUNTD_TRY(
      database_->Run("DELETE FROM plugin_instances WHERE serial=?1", serial));
  return Ok();
}

Result<void> PluginTable::SetFingerprint(
    std::uint64_t serial, const csi::Fingerprint& fingerprint,
    const std::vector<std::string>& former_node_ids) {
  MOUNTD_TRY(database_->Run(
      "UPDATE plugin_instances SET fingerprint=?2, "
      "former_node_ids=?3 WHERE serial=?1",
      serial, ToColumn(fingerprint),
      former_node_ids.empty() ? std::string() : ToColumn(former_node_ids)));
  return Ok();
}

Result<std::map<std::uint64_t, csi::Fingerprint>>
PluginTable::ListFingerprints() {
  std::map<std::uint64_t, csi::Fingerprint> all;
  MOUNTD_TRY(database_->Query(
      "SELECT serial,fingerprint FROM plugin_instances WHERE fingerprint<>''",
      [&](const Row& row) {
        all.emplace(row.Bits(0), FingerprintFromColumn(row.Text(1)));
      }));
  return all;
}

Result<std::map<std::uint64_t, std::vector<std::string>>>
PluginTable::ListFormerNodeIds() {
  std::map<std::uint64_t, std::vector<std::string>> all;
  MOUNTD_TRY(database_->Query(
      "SELECT serial,former_node_ids FROM plugin_instances WHERE "
      "former_node_ids<>''",
      [&](const Row& row) {
        all.emplace(row.Bits(0), TextsFromColumn(row.Text(1)));
      }));
  return all;
}

Result<void> PluginTable::SetRemovedNodeIds(
    const std::string& id, const std::vector<std::string>& node_ids) {
  MOUNTD_TRY(
      database_->Run("UPDATE plugins SET removed_node_ids=?2 WHERE id=?1", id,
                     node_ids.empty() ? std::string() : ToColumn(node_ids)));
  return Ok();
}

Result<std::map<std::string, std::vector<std::string>>>
PluginTable::ListRemovedNodeIds() {
  std::map<std::string, std::vector<std::string>> all;
  MOUNTD_TRY(database_->Query(
      "SELECT id,removed_node_ids FROM plugins WHERE removed_node_ids<>''",
      [&](const Row& row) {
        all.emplace(row.Text(0), TextsFromColumn(row.Text(1)));
      }));
  return all;
}

Result<std::vector<PluginRecord>> PluginTable::ListPlugins() {
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

}  // namespace mountd::store
