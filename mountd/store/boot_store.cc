// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/store/boot_store.h"

#include <array>

#include "mountd/store/columns.h"

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
// The networks' records say which host ports are taken, and mountd keeps those
// in memory. So the table of ports is not needed.
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
constexpr std::array<std::string_view, 12> kBootSchema = {
    kBootSchema1,    kTmpfsMounts,         kMappedIds,
    kAnchorsOfKinds, kMountsById,          kTargetsAndInboxes,
    kFewerIndexes,   kNetworksByInterface, kCniNetworks,
    kMeta,           kHandedOut,           kTakenOver};

constexpr std::string_view kSelectMount =
    "SELECT allocation,task,name,source_kind,source,propagation,attributes,"
    "task_path,tmpfs,id_map,state,mount_id,peer_group,master,"
    "source_group,uid,target_kind,directory FROM mounts ";

MountRecord ReadMount(const Row& row) {
  MountRecord record;
  record.allocation = row.Text(0);
  record.task = row.Text(1);
  record.name = row.Text(2);
  record.source_kind = static_cast<exec::SourceKind>(row.Int(3));
  record.source = row.Text(4);
  record.propagation = static_cast<exec::Propagation>(row.Int(5));
  record.attributes = static_cast<std::uint32_t>(row.Int(6));
  record.task_path = row.Text(7);
  record.tmpfs = TmpfsFromColumn(row.Text(8));
  record.ids = IdsFromColumn(row.Text(9));
  record.state = static_cast<MountRecordState>(row.Int(10));
  record.mount_id = row.Bits(11);
  record.peer_group = row.Bits(12);
  record.master = row.Bits(13);
  record.source_group = row.Bits(14);
  record.uid = static_cast<std::uint32_t>(row.Int(15));
  record.target_kind = static_cast<exec::TargetKind>(row.Int(16));
  record.place = row.Text(17);
  return record;
}

// Reads an address's text; a damaged one reads as no address.
netns::Ipv4 ReadIpv4(const Row& row, int column) {
  const Result<netns::Ipv4> address = netns::ParseIpv4(row.Text(column));
  return address ? *address : netns::Ipv4{};
}

netns::Ipv6 ReadIpv6(const Row& row, int column) {
  const Result<netns::Ipv6> address = netns::ParseIpv6(row.Text(column));
  return address ? *address : netns::Ipv6{};
}

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
    // Records that name no boot are of the boot that made the file, so keep
    // them.
    if (!last_boot.empty()) {
      for (const std::string_view statement :
           {"DELETE FROM mounts", "DELETE FROM inboxes", "DELETE FROM anchors",
            "DELETE FROM networks", "DELETE FROM quarantine",
            "DELETE FROM handed_out"}) {
        MOUNTD_TRY(database_->Run(statement));
      }
    }
    MOUNTD_TRY(database_->Run(
        "INSERT OR REPLACE INTO meta(name,value) VALUES('boot_id',?1)",
        boot_id));
    return Ok();
  });
}

Result<void> BootStore::PutMount(const MountRecord& record) {
  MOUNTD_TRY(database_->Run(
      // tmpfs_bytes is a column of its own, so that TmpfsBytesOf can sum it.
      "INSERT OR REPLACE INTO mounts(allocation,task,name,source_kind,source,"
      "propagation,attributes,task_path,tmpfs,tmpfs_bytes,id_map,state,"
      "mount_id,peer_group,master,source_group,uid,target_kind,directory) "
      "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,"
      "?19)",
      record.allocation, record.task, record.name,
      static_cast<int>(record.source_kind), record.source,
      static_cast<int>(record.propagation), record.attributes, record.task_path,
      ToColumn(record.tmpfs), record.tmpfs.bytes, ToColumn(record.ids),
      static_cast<int>(record.state), record.mount_id, record.peer_group,
      record.master, record.source_group, record.uid,
      static_cast<int>(record.target_kind), record.place));
  return Ok();
}

Result<void> BootStore::UpdateMount(const MountRecord& record) {
  MOUNTD_TRY(database_->Run(
      "UPDATE mounts SET state=?4,mount_id=?5,peer_group=?6,master=?7,"
      "source_group=?8 WHERE allocation=?1 AND task=?2 AND name=?3",
      record.allocation, record.task, record.name,
      static_cast<int>(record.state), record.mount_id, record.peer_group,
      record.master, record.source_group));
  return Ok();
}

Result<void> BootStore::SetMountState(const MountRecord& record,
                                      MountRecordState state) {
  MOUNTD_TRY(database_->Run(
      "UPDATE mounts SET state=?4 WHERE allocation=?1 AND task=?2 AND name=?3",
      record.allocation, record.task, record.name, static_cast<int>(state)));
  return Ok();
}

Result<std::optional<MountRecord>> BootStore::GetMount(
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

Result<std::optional<MountRecord>> BootStore::FindMount(
    std::uint64_t mount_id) {
  static const std::string sql =
      std::string(kSelectMount) + "WHERE mount_id=?1 AND mount_id<>0";
  std::optional<MountRecord> found;
  MOUNTD_TRY(database_->Query(
      sql, [&](const Row& row) { found = ReadMount(row); }, mount_id));
  return found;
}

Result<std::vector<MountRecord>> BootStore::ListMounts() {
  static const std::string sql =
      std::string(kSelectMount) + "ORDER BY allocation,task,name";
  std::vector<MountRecord> all;
  MOUNTD_TRY(database_->Query(
      sql, [&](const Row& row) { all.push_back(ReadMount(row)); }));
  return all;
}

Result<std::vector<MountRecord>> BootStore::MountsOf(
    const std::string& allocation) {
  static const std::string sql =
      std::string(kSelectMount) + "WHERE allocation=?1 ORDER BY task,name";
  std::vector<MountRecord> all;
  MOUNTD_TRY(database_->Query(
      sql, [&](const Row& row) { all.push_back(ReadMount(row)); }, allocation));
  return all;
}

template <typename T>
Result<std::uint32_t> BootStore::Count(std::string_view sql,
                                       const T& argument) {
  std::uint32_t count = 0;
  MOUNTD_TRY(database_->Query(
      sql,
      [&](const Row& row) { count = static_cast<std::uint32_t>(row.Int(0)); },
      argument));
  return count;
}

Result<std::uint32_t> BootStore::CountMounts(const std::string& allocation) {
  return Count("SELECT count(*) FROM mounts WHERE allocation=?1", allocation);
}

Result<std::uint32_t> BootStore::CountMountsOfUser(std::uint32_t uid) {
  return Count("SELECT count(*) FROM mounts WHERE uid=?1", uid);
}

Result<void> BootStore::PutHandedOut(const HandedOutRecord& record) {
  MOUNTD_TRY(database_->Run(
      "INSERT OR REPLACE INTO handed_out(mount_id,reusable_id,device,"
      "allocation,uid,kind,source_kind,name) VALUES(?1,?2,?3,?4,?5,?6,?7,?8)",
      record.mount.mount_id, record.mount.reusable_id, record.mount.device,
      record.allocation, record.uid, static_cast<int>(record.kind),
      static_cast<int>(record.source_kind), record.name));
  return Ok();
}

template <typename T>
Result<std::vector<HandedOutRecord>> BootStore::SelectHandedOut(
    std::string_view where, const T& argument) {
  std::vector<HandedOutRecord> all;
  MOUNTD_TRY(database_->Query(
      std::string("SELECT mount_id,reusable_id,device,allocation,uid,kind,"
                  "source_kind,name FROM handed_out WHERE ")
          .append(where)
          .append(" ORDER BY mount_id"),
      [&](const Row& row) {
        HandedOutRecord& record = all.emplace_back();
        record.mount = {row.Bits(0), row.Bits(1), row.Bits(2)};
        record.allocation = row.Text(3);
        record.uid = static_cast<std::uint32_t>(row.Int(4));
        record.kind = static_cast<HandedOutKind>(row.Int(5));
        record.source_kind = static_cast<exec::SourceKind>(row.Int(6));
        record.name = row.Text(7);
      },
      argument));
  return all;
}

Result<std::vector<HandedOutRecord>> BootStore::HandedOutOf(
    const std::string& allocation) {
  return SelectHandedOut("allocation=?1", allocation);
}

Result<std::vector<HandedOutRecord>> BootStore::HandedOutOfUser(
    std::uint32_t uid) {
  return SelectHandedOut("uid=?1", uid);
}

Result<std::uint32_t> BootStore::CountHandedOut(const std::string& allocation) {
  return Count("SELECT count(*) FROM handed_out WHERE allocation=?1",
               allocation);
}

Result<std::uint32_t> BootStore::CountHandedOutOfUser(std::uint32_t uid) {
  return Count("SELECT count(*) FROM handed_out WHERE uid=?1", uid);
}

Result<void> BootStore::ForgetHandedOut(const HandedOutRecord& record) {
  MOUNTD_TRY(database_->Run("DELETE FROM handed_out WHERE mount_id=?1",
                            record.mount.mount_id));
  return Ok();
}

Result<void> BootStore::PutInbox(const InboxRecord& record) {
  MOUNTD_TRY(database_->Run(
      "INSERT OR IGNORE INTO inboxes(allocation,task) VALUES(?1,?2)",
      record.allocation, record.task));
  return Ok();
}

Result<std::vector<std::string>> BootStore::InboxesOf(
    const std::string& allocation) {
  std::vector<std::string> tasks;
  MOUNTD_TRY(database_->Query(
      "SELECT task FROM inboxes WHERE allocation=?1 ORDER BY task",
      [&](const Row& row) { tasks.push_back(row.Text(0)); }, allocation));
  return tasks;
}

Result<void> BootStore::RemoveInbox(const InboxRecord& record) {
  MOUNTD_TRY(
      database_->Run("DELETE FROM inboxes WHERE allocation=?1 AND task=?2",
                     record.allocation, record.task));
  return Ok();
}

Result<void> BootStore::RemoveInboxes(const std::string& allocation) {
  MOUNTD_TRY(
      database_->Run("DELETE FROM inboxes WHERE allocation=?1", allocation));
  return Ok();
}

Result<std::uint64_t> BootStore::TmpfsBytesOf(const std::string& allocation) {
  std::uint64_t bytes = 0;
  MOUNTD_TRY(database_->Query(
      "SELECT coalesce(sum(tmpfs_bytes),0) FROM mounts WHERE allocation=?1",
      [&](const Row& row) { bytes = row.Bits(0); }, allocation));
  return bytes;
}

Result<bool> BootStore::HasMountsOf(const AnchorKey& key) {
  bool has = false;
  MOUNTD_TRY(database_->Query(
      "SELECT 1 FROM mounts WHERE source_kind=?1 AND source=?2 LIMIT 1",
      [&](const Row&) { has = true; }, static_cast<int>(key.kind), key.source));
  return has;
}

Result<bool> BootStore::RemoveMount(const MountRecord& record) {
  MOUNTD_ASSIGN(
      const int removed,
      database_->Run(
          "DELETE FROM mounts WHERE allocation=?1 AND task=?2 AND name=?3",
          record.allocation, record.task, record.name));
  return removed > 0;
}

Result<void> BootStore::DoubtAnchor(const AnchorKey& key) {
  MOUNTD_TRY(database_->Run(
      "INSERT OR REPLACE INTO anchors(source_kind,source,anchor_id) "
      "VALUES(?1,?2,0)",
      static_cast<int>(key.kind), key.source));
  return Ok();
}

Result<void> BootStore::PutAnchor(const AnchorKey& key,
                                  std::uint64_t anchor_id) {
  MOUNTD_TRY(database_->Run(
      "INSERT INTO anchors(source_kind,source,anchor_id) VALUES(?1,?2,?3) "
      // An unchanged id writes no page.
      "ON CONFLICT DO UPDATE SET anchor_id=?3 WHERE anchor_id<>?3",
      static_cast<int>(key.kind), key.source, anchor_id));
  return Ok();
}

Result<std::optional<std::uint64_t>> BootStore::GetAnchor(
    const AnchorKey& key) {
  std::optional<std::uint64_t> found;
  MOUNTD_TRY(database_->Query(
      "SELECT anchor_id FROM anchors WHERE source_kind=?1 AND source=?2",
      [&](const Row& row) { found = row.Bits(0); }, static_cast<int>(key.kind),
      key.source));
  return found;
}

Result<std::map<AnchorKey, std::uint64_t>> BootStore::ListAnchors() {
  std::map<AnchorKey, std::uint64_t> all;
  MOUNTD_TRY(database_->Query(
      "SELECT source_kind,source,anchor_id FROM anchors", [&](const Row& row) {
        all.emplace(
            AnchorKey{static_cast<exec::SourceKind>(row.Int(0)), row.Text(1)},
            row.Bits(2));
      }));
  return all;
}

Result<void> BootStore::RemoveAnchor(const AnchorKey& key) {
  MOUNTD_TRY(
      database_->Run("DELETE FROM anchors WHERE source_kind=?1 AND source=?2",
                     static_cast<int>(key.kind), key.source));
  return Ok();
}

Result<void> BootStore::AddNetwork(const NetworkRecord& record) {
  MOUNTD_TRY(database_->Run(
      "INSERT INTO networks(allocation,interface,mode,network,ipv4,ipv6,flags,"
      "ports,state,netns_inode,netns_given,files,cni,taken_over) "
      "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14)",
      record.allocation, record.interface, static_cast<int>(record.mode),
      record.network, netns::ToString(record.ipv4),
      netns::ToString(record.ipv6), record.flags, ToColumn(record.ports),
      static_cast<int>(record.state), record.netns_inode,
      static_cast<int>(record.netns_given), ToColumn(record.files),
      ToColumn(record.cni), static_cast<int>(record.taken_over)));
  return Ok();
}

Result<std::vector<NetworkRecord>> BootStore::SelectNetworks(
    std::string_view where, const std::string& argument) {
  std::vector<NetworkRecord> all;
  MOUNTD_TRY(database_->Query(
      std::string("SELECT allocation,interface,mode,network,ipv4,ipv6,flags,"
                  "ports,state,netns_inode,netns_given,files,cni,cni_result,"
                  "taken_over FROM networks WHERE ")
          .append(where)
          .append(" ORDER BY allocation,interface"),
      [&](const Row& row) {
        NetworkRecord record;
        record.allocation = row.Text(0);
        record.interface = row.Text(1);
        record.mode = static_cast<NetworkMode>(row.Int(2));
        record.network = row.Text(3);
        record.ipv4 = ReadIpv4(row, 4);
        record.ipv6 = ReadIpv6(row, 5);
        record.flags = static_cast<std::uint32_t>(row.Int(6));
        record.ports = PortsFromColumn(row.Text(7));
        record.state = static_cast<NetworkRecordState>(row.Int(8));
        record.netns_inode = row.Bits(9);
        record.netns_given = row.Int(10) != 0;
        record.files = FilesFromColumn(row.Text(11));
        record.cni = CniSettingsFromColumn(row.Text(12));
        record.cni_result = CniResultFromColumn(row.Text(13));
        record.taken_over = row.Int(14) != 0;
        all.push_back(std::move(record));
      },
      argument));
  return all;
}

Result<std::vector<NetworkRecord>> BootStore::NetworksOf(
    const std::string& allocation) {
  return SelectNetworks("allocation=?1", allocation);
}

Result<std::vector<NetworkRecord>> BootStore::ListNetworks() {
  // Always true, and uses the argument that SelectNetworks binds.
  return SelectNetworks("?1=''", "");
}

Result<std::vector<NetworkRecord>> BootStore::NetworksWith(
    const std::vector<std::string>& allocations_and_addresses) {
  return SelectNetworks(
      "allocation IN (SELECT value FROM json_each(?1)) OR "
      "ipv4 IN (SELECT value FROM json_each(?1)) OR "
      "ipv6 IN (SELECT value FROM json_each(?1))",
      ToColumn(allocations_and_addresses));
}

Result<void> BootStore::SetNetworkState(const NetworkRecord& record) {
  MOUNTD_TRY(database_->Run(
      "UPDATE networks SET state=?3, netns_inode=?4, flags=?5, "
      "cni_result=?6 WHERE allocation=?1 AND interface=?2",
      record.allocation, record.interface, static_cast<int>(record.state),
      record.netns_inode, record.flags, ToColumn(record.cni_result)));
  return Ok();
}

Result<void> BootStore::RemoveNetwork(const NetworkRecord& record) {
  MOUNTD_TRY(database_->Run(
      "DELETE FROM networks WHERE allocation=?1 AND interface=?2",
      record.allocation, record.interface));
  return Ok();
}

Result<void> BootStore::QuarantineNetwork(const NetworkRecord& record) {
  // One transaction, because an address without either row would be given out
  // while its link still exists.
  return database_->Transaction([&]() -> Result<void> {
    MOUNTD_TRY(RemoveNetwork(record));
    MOUNTD_TRY(database_->Run(
        "INSERT OR REPLACE INTO quarantine(ipv4,ipv6,network,allocation,"
        "netns_inode) VALUES(?1,?2,?3,?4,?5)",
        netns::ToString(record.ipv4), netns::ToString(record.ipv6),
        record.network, record.allocation, record.netns_inode));
    return Ok();
  });
}

Result<std::vector<QuarantineRecord>> BootStore::ListQuarantine() {
  std::vector<QuarantineRecord> all;
  MOUNTD_TRY(database_->Query(
      "SELECT network,ipv4,ipv6,allocation,netns_inode FROM quarantine",
      [&](const Row& row) {
        all.push_back({row.Text(0), ReadIpv4(row, 1), ReadIpv6(row, 2),
                       row.Text(3), row.Bits(4)});
      }));
  return all;
}

Result<void> BootStore::EndQuarantine(const netns::Ipv4& address) {
  MOUNTD_TRY(database_->Run("DELETE FROM quarantine WHERE ipv4=?1",
                            netns::ToString(address)));
  return Ok();
}

}  // namespace mountd::store
