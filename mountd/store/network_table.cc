// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/store/network_table.h"

#include "mountd/store/columns.h"

namespace mountd::store {
namespace {

// Reads an address's text. Returns no address if the text is damaged.
netns::Ipv4 ReadIpv4(const Row& row, int column) {
  const Result<netns::Ipv4> address = netns::ParseIpv4(row.Text(column));
  return address ? *address : netns::Ipv4{};
}

netns::Ipv6 ReadIpv6(const Row& row, int column) {
  const Result<netns::Ipv6> address = netns::ParseIpv6(row.Text(column));
  return address ? *address : netns::Ipv6{};
}

}  // namespace

Result<void> NetworkTable::AddNetwork(const NetworkRecord& record) {
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

Result<std::vector<NetworkRecord>> NetworkTable::SelectNetworks(
    std::string_view where, const std::string& argument) {
  std::vector<NetworkRecord> all;
  MOUNTD_TRY(database_->Query(
      std::string("SELECT allocation,interface,mode,network,ipv4,ipv6,flags,"
                  "ports,state,netns_inode,netns_given,files,cni,cni_result,"
                  "taken_over,next_ports FROM networks WHERE ")
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
        if (const std::string next = row.Text(15); !next.empty()) {
          record.next_ports = PortsFromColumn(next);
        }
        all.push_back(std::move(record));
      },
      argument));
  return all;
}

Result<std::vector<NetworkRecord>> NetworkTable::NetworksOf(
    const std::string& allocation) {
  return SelectNetworks("allocation=?1", allocation);
}

Result<std::vector<NetworkRecord>> NetworkTable::ListNetworks() {
  // This condition is always true. The condition only uses the argument that
  // SelectNetworks binds.
  return SelectNetworks("?1=''", "");
}

Result<std::vector<NetworkRecord>> NetworkTable::NetworksWith(
    const std::vector<std::string>& allocations_and_addresses,
    bool ipv6_alone) {
  std::string where =
      "allocation IN (SELECT value FROM json_each(?1)) OR "
      "ipv4 IN (SELECT value FROM json_each(?1)) OR "
      "ipv6 IN (SELECT value FROM json_each(?1))";
  if (ipv6_alone) {
    where += " OR (ipv4='0.0.0.0' AND ipv6<>'::')";
  }
  return SelectNetworks(where, ToColumn(allocations_and_addresses));
}

Result<void> NetworkTable::SetNetworkState(const NetworkRecord& record) {
  MOUNTD_TRY(database_->Run(
      "UPDATE networks SET state=?3, netns_inode=?4, flags=?5, "
      "cni_result=?6 WHERE allocation=?1 AND interface=?2",
      record.allocation, record.interface, static_cast<int>(record.state),
      record.netns_inode, record.flags, ToColumn(record.cni_result)));
  return Ok();
}

Result<void> NetworkTable::SetNetworkPorts(const NetworkRecord& record) {
  MOUNTD_TRY(database_->Run(
      "UPDATE networks SET ports=?3, next_ports=?4 "
      "WHERE allocation=?1 AND interface=?2",
      record.allocation, record.interface, ToColumn(record.ports),
      record.next_ports ? ToColumn(*record.next_ports) : ""));
  return Ok();
}

Result<void> NetworkTable::RemoveNetwork(const NetworkRecord& record) {
  MOUNTD_TRY(database_->Run(
      "DELETE FROM networks WHERE allocation=?1 AND interface=?2",
      record.allocation, record.interface));
  return Ok();
}

Result<void> NetworkTable::QuarantineNetwork(const NetworkRecord& record) {
  // Use one transaction, because mountd would give out an address that has
  // neither row, while its link still exists.
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

Result<std::vector<QuarantineRecord>> NetworkTable::ListQuarantine() {
  std::vector<QuarantineRecord> all;
  MOUNTD_TRY(database_->Query(
      "SELECT network,ipv4,ipv6,allocation,netns_inode FROM quarantine",
      [&](const Row& row) {
        all.push_back({row.Text(0), ReadIpv4(row, 1), ReadIpv6(row, 2),
                       row.Text(3), row.Bits(4)});
      }));
  return all;
}

Result<void> NetworkTable::EndQuarantine(const QuarantineRecord& record) {
  MOUNTD_TRY(database_->Run("DELETE FROM quarantine WHERE ipv4=?1 AND ipv6=?2",
                            netns::ToString(record.ipv4),
                            netns::ToString(record.ipv6)));
  return Ok();
}

}  // namespace mountd::store
