// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/store/boot_store.h"

#include <array>

namespace mountd::store {
namespace {

constexpr std::string_view kBootSchema1 = R"sql(
CREATE TABLE mounts(
  allocation TEXT NOT NULL, task TEXT NOT NULL, name TEXT NOT NULL,
  source_kind INTEGER NOT NULL, source TEXT NOT NULL,
  propagation INTEGER NOT NULL, attributes INTEGER NOT NULL,
  task_path TEXT NOT NULL, state INTEGER NOT NULL,
  mount_id INTEGER NOT NULL, peer_group INTEGER NOT NULL,
  master INTEGER NOT NULL, PRIMARY KEY(allocation, task, name))
  WITHOUT ROWID;
CREATE INDEX mounts_by_source ON mounts(source_kind, source);
CREATE TABLE anchors(
  host_volume TEXT PRIMARY KEY, anchor_id INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE networks(
  allocation TEXT PRIMARY KEY, network TEXT NOT NULL, ipv4 TEXT NOT NULL,
  ipv6 TEXT NOT NULL, ports TEXT NOT NULL, state INTEGER NOT NULL,
  netns_inode INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE ports(
  host_port INTEGER NOT NULL, protocol INTEGER NOT NULL,
  allocation TEXT NOT NULL, PRIMARY KEY(host_port, protocol)) WITHOUT ROWID;
CREATE INDEX ports_by_allocation ON ports(allocation);
CREATE TABLE quarantine(
  ipv4 TEXT PRIMARY KEY, network TEXT NOT NULL, allocation TEXT NOT NULL,
  netns_inode INTEGER NOT NULL) WITHOUT ROWID;
)sql";
constexpr std::string_view kTmpfsMounts = R"sql(
ALTER TABLE mounts ADD COLUMN tmpfs TEXT NOT NULL DEFAULT '';
ALTER TABLE mounts ADD COLUMN tmpfs_bytes INTEGER NOT NULL DEFAULT 0;
)sql";
constexpr std::string_view kMappedIds = R"sql(
ALTER TABLE mounts ADD COLUMN id_map TEXT NOT NULL DEFAULT '[]';
)sql";
constexpr std::string_view kAnchorsOfKinds = R"sql(
ALTER TABLE anchors RENAME TO host_anchors;
CREATE TABLE anchors(
  source_kind INTEGER NOT NULL, source TEXT NOT NULL,
  anchor_id INTEGER NOT NULL, PRIMARY KEY(source_kind, source)) WITHOUT ROWID;
INSERT INTO anchors SELECT 1, host_volume, anchor_id FROM host_anchors;
DROP TABLE host_anchors;
)sql";
constexpr std::string_view kMountsById =
    "CREATE INDEX mounts_by_id ON mounts(mount_id);";
constexpr std::string_view kTargetsAndInboxes = R"sql(
ALTER TABLE mounts ADD COLUMN source_group INTEGER NOT NULL DEFAULT 0;
ALTER TABLE mounts ADD COLUMN uid INTEGER NOT NULL DEFAULT 0;
ALTER TABLE mounts ADD COLUMN target_kind INTEGER NOT NULL DEFAULT 1;
ALTER TABLE mounts ADD COLUMN directory TEXT NOT NULL DEFAULT '';
CREATE INDEX mounts_by_uid ON mounts(uid);
CREATE TABLE inboxes(
  allocation TEXT NOT NULL, task TEXT NOT NULL,
  PRIMARY KEY(allocation, task)) WITHOUT ROWID;
)sql";
// Keeps few indexes, because each is one more page to write with each mount.
constexpr std::string_view kFewerIndexes = R"sql(
DROP INDEX mounts_by_uid;
DROP INDEX mounts_by_id;
CREATE INDEX mounts_by_id ON mounts(mount_id) WHERE mount_id<>0;
)sql";
// The table of ports is not needed, because mountd keeps in memory which host
// ports the networks' records use.
constexpr std::string_view kNetworksByInterface = R"sql(
DROP TABLE ports;
ALTER TABLE networks RENAME TO only_networks;
CREATE TABLE networks(
  allocation TEXT NOT NULL, interface TEXT NOT NULL, mode INTEGER NOT NULL,
  network TEXT NOT NULL, ipv4 TEXT NOT NULL, ipv6 TEXT NOT NULL,
  flags INTEGER NOT NULL, ports TEXT NOT NULL, state INTEGER NOT NULL,
  netns_inode INTEGER NOT NULL, netns_given INTEGER NOT NULL,
  files TEXT NOT NULL, PRIMARY KEY(allocation, interface)) WITHOUT ROWID;
INSERT INTO networks SELECT allocation, 'eth0', 3, network, ipv4, ipv6, 2, ports,
  state, netns_inode, 0, '' FROM only_networks;
DROP TABLE only_networks;
ALTER TABLE quarantine ADD COLUMN ipv6 TEXT NOT NULL DEFAULT '::';
)sql";
constexpr std::string_view kCniNetworks = R"sql(
ALTER TABLE networks ADD COLUMN cni TEXT NOT NULL DEFAULT '';
ALTER TABLE networks ADD COLUMN cni_result TEXT NOT NULL DEFAULT '';
)sql";
constexpr std::string_view kMeta =
    "CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT NOT NULL);";
constexpr std::string_view kHandedOut = R"sql(
CREATE TABLE handed_out(
  mount_id INTEGER PRIMARY KEY, reusable_id INTEGER NOT NULL,
  device INTEGER NOT NULL, allocation TEXT NOT NULL, uid INTEGER NOT NULL,
  kind INTEGER NOT NULL, source_kind INTEGER NOT NULL, name TEXT NOT NULL);
)sql";
constexpr std::string_view kTakenOver =
    "ALTER TABLE networks ADD COLUMN taken_over INTEGER NOT NULL DEFAULT 0;";
// The key needs both addresses, because all networks with only IPv6 have the
// same empty IPv4 address.
constexpr std::string_view kQuarantineByBoth = R"sql(
ALTER TABLE quarantine RENAME TO ipv4_quarantine;
CREATE TABLE quarantine(
  ipv4 TEXT NOT NULL, ipv6 TEXT NOT NULL, network TEXT NOT NULL,
  allocation TEXT NOT NULL, netns_inode INTEGER NOT NULL,
  PRIMARY KEY(ipv4, ipv6)) WITHOUT ROWID;
INSERT INTO quarantine SELECT ipv4, ipv6, network, allocation, netns_inode
  FROM ipv4_quarantine;
DROP TABLE ipv4_quarantine;
)sql";
constexpr std::string_view kLeaseDeadlines = R"sql(
CREATE TABLE lease_deadlines(
  uid INTEGER NOT NULL, name TEXT NOT NULL, deadline_boot_us INTEGER NOT NULL,
  PRIMARY KEY(uid, name)) WITHOUT ROWID;
)sql";
// The ports of an update that is under way; '' means that there is none.
constexpr std::string_view kNextPorts =
    "ALTER TABLE networks ADD COLUMN next_ports TEXT NOT NULL DEFAULT '';";
constexpr std::array<std::string_view, 15> kBootSchema = {
    kBootSchema1,      kTmpfsMounts,
    kMappedIds,        kAnchorsOfKinds,
    kMountsById,       kTargetsAndInboxes,
    kFewerIndexes,     kNetworksByInterface,
    kCniNetworks,      kMeta,
    kHandedOut,        kTakenOver,
    kQuarantineByBoth, kLeaseDeadlines,
    kNextPorts};

}  // namespace

Result<std::unique_ptr<BootStore>> BootStore::Open(const std::string& path) {
  MOUNTD_ASSIGN(
      std::unique_ptr<Database> database,
      Database::Open(path, Database::Durability::kProcess, kBootSchema));
  return std::unique_ptr<BootStore>(new BootStore(std::move(database)));
}

Result<void> BootStore::AdoptBoot(const std::string& boot_id) {
  return Together([&]() -> Result<void> {
    std::string last_boot;
    MOUNTD_TRY(
        database_->Query("SELECT value FROM meta WHERE name='boot_id'",
                         [&](const Row& row) { last_boot = row.Text(0); }));
    if (last_boot == boot_id) {
      return Ok();
    }
    // Keep records without a boot id, because they are of the boot that made
    // the file.
    if (!last_boot.empty()) {
      for (const std::string_view statement :
           {"DELETE FROM mounts", "DELETE FROM inboxes", "DELETE FROM anchors",
            "DELETE FROM networks", "DELETE FROM quarantine",
            "DELETE FROM handed_out", "DELETE FROM lease_deadlines"}) {
        MOUNTD_TRY(database_->Run(statement));
      }
    }
    MOUNTD_TRY(database_->Run(
        "INSERT OR REPLACE INTO meta(name,value) VALUES('boot_id',?1)",
        boot_id));
    return Ok();
  });
}

}  // namespace mountd::store
