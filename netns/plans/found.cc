// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/plans/found.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "mountd/plan/protocols.h"
#include "mountd/plan/wire.h"
#include "netns/address/address.h"
#include "netns/events/attributes.h"
#include "netns/plans/access.h"
#include "netns/plans/pin.h"
#include "netns/plans/ruleset.h"

namespace mountd::netns {
namespace {

using exec::FoundNetwork;
using exec::PortMap;
using Bytes = std::span<const std::byte>;

constexpr std::size_t kMaxNamespaces = std::size_t{1} << 16U;
constexpr std::size_t kLinkNameBytes = 16;  // in an element's key

struct FoundElement {
  std::vector<std::byte> key;
  std::vector<std::byte> data;
};

// Returns all elements of the set. Empty if the table does not exist. Some may
// be missing if a table changed during the dump; ReadTable finds that out.
Result<std::vector<FoundElement>> ElementsOfSet(Channel* nft, const char* set) {
  nfgenmsg header = {};
  header.nfgen_family = NFPROTO_INET;
  header.version = NFNETLINK_V0;
  Message dump((NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_GETSETELEM, NLM_F_DUMP,
               header);
  dump.PutText(NFTA_SET_ELEM_LIST_TABLE, kTable)
      .PutText(NFTA_SET_ELEM_LIST_SET, set);
  MOUNTD_ASSIGN(const std::vector<Answer> answers, nft->Dump(dump));
  std::vector<FoundElement> all;
  for (const Answer& answer : answers) {
    // ENOENT: without mountd's table there is no set, so no element.
    if (answer.err != 0 && answer.err != ENOENT) {
      return ErrnoError(answer.err, "NFT_MSG_GETSETELEM", set);
    }
    AttributesAfter<nfgenmsg>(answer.payload)
        .Nested(NFTA_SET_ELEM_LIST_ELEMENTS)
        .Each([&](const Attributes& one) {
          const Bytes key =
              one.Nested(NFTA_SET_ELEM_KEY).Bytes(NFTA_DATA_VALUE);
          const Bytes data =
              one.Nested(NFTA_SET_ELEM_DATA).Bytes(NFTA_DATA_VALUE);
          all.push_back({{key.begin(), key.end()}, {data.begin(), data.end()}});
        });
  }
  return all;
}

template <typename Address>
Address AddressAt(Bytes bytes, std::size_t at) {
  Address address{};
  if (bytes.size() >= at + address.size()) {
    std::memcpy(address.data(), &bytes[at], address.size());
  }
  return address;
}

// Returns the port in network byte order at `at`; 0 if the bytes end before.
std::uint16_t PortAt(Bytes bytes, std::size_t at) {
  return bytes.size() < at + 2
             ? std::uint16_t{0}
             : static_cast<std::uint16_t>(
                   std::to_integer<unsigned>(bytes[at]) << 8U |
                   std::to_integer<unsigned>(bytes[at + 1]));
}

std::uint8_t ProtocolAt(Bytes bytes, std::size_t at) {
  for (const auto& [bit, number] : exec::kProtocolNumbers) {
    if (at < bytes.size() && std::to_integer<unsigned>(bytes[at]) == number) {
      return bit;
    }
  }
  return 0;
}

std::string LinkOf(Bytes key) {
  const auto* text = reinterpret_cast<const char*>(key.data());
  return {text, ::strnlen(text, std::min(key.size(), kLinkNameBytes))};
}

// One port of one or both families, put together from the maps' elements.
struct PortKey {
  std::array<std::uint8_t, 16> host{};
  std::uint8_t family = 0;
  std::uint16_t host_port = 0;
  std::uint16_t container_port = 0;
  friend auto operator<=>(const PortKey&, const PortKey&) = default;
};

// The protocols of each port.
using Ports = std::map<PortKey, std::uint8_t>;

// Returns the ports of one map, by the container's address.
template <typename Address>
Result<std::map<Address, Ports>> PortsOfMap(Channel* nft, const char* set,
                                            bool of_one, std::uint8_t family) {
  MOUNTD_ASSIGN(const std::vector<FoundElement> elements,
                ElementsOfSet(nft, set));
  std::map<Address, Ports> all;
  for (const FoundElement& element : elements) {
    const std::size_t at = of_one ? Address{}.size() : 0;
    PortKey key;
    if (of_one) {
      const auto host = AddressAt<Address>(element.key, 0);
      std::copy(host.begin(), host.end(), key.host.begin());
      key.family = family;
    }
    // The parts of a key are padded to 4 bytes (ElementBytes).
    key.host_port = PortAt(element.key, at + 4);
    key.container_port = PortAt(element.data, Address{}.size());
    all[AddressAt<Address>(element.data, 0)][key] |=
        ProtocolAt(element.key, at);
  }
  return all;
}

// Returns whether the port continues the row `last`.
bool Follows(const PortMap& last, const PortKey& key, std::uint8_t protocols) {
  return last.host_address == key.host && last.host_family == key.family &&
         last.protocols == protocols &&
         last.host_port + last.count == key.host_port &&
         last.container_port + last.count == key.container_port;
}

// Joins ports that follow each other into one port map.
std::vector<PortMap> Together(const Ports& ports) {
  std::vector<PortMap> all;
  for (const auto& [key, protocols] : ports) {
    if (!all.empty() && Follows(all.back(), key, protocols)) {
      ++all.back().count;
      continue;
    }
    PortMap one;
    one.host_port = key.host_port;
    one.container_port = key.container_port;
    one.protocols = protocols;
    one.host_family = key.family;
    one.host_address = key.host;
    all.push_back(one);
  }
  return all;
}

template <typename Address>
void Add(const std::map<Address, Ports>& found, const Address& address,
         Ports* ports) {
  if (const auto own = found.find(address); own != found.end()) {
    for (const auto& [key, protocols] : own->second) {
      (*ports)[key] |= protocols;
    }
  }
}

// Returns the number that each transaction of nf_tables raises.
Result<std::uint32_t> GenerationOf(Channel* nft) {
  nfgenmsg header = {};
  header.version = NFNETLINK_V0;
  std::vector<Message> messages;
  messages.emplace_back((NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_GETGEN, 0,
                        header);
  MOUNTD_ASSIGN(const std::vector<Answer> answers,
                nft->Ask(messages, "NFT_MSG_GETGEN", "ruleset"));
  for (const Answer& answer : answers) {
    if (answer.type == ((NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_NEWGEN)) {
      // Compared only, so its byte order does not matter.
      return AttributesAfter<nfgenmsg>(answer.payload)
          .Value<std::uint32_t>(NFTA_GEN_ID)
          .value_or(0U);
    }
  }
  return 0U;
}

// The whole table.
struct Table {
  std::map<std::string, Ipv6> ipv6;  // by link
  std::set<std::string> open;
  std::array<std::map<Ipv4, Ports>, 2> ports4;
  std::array<std::map<Ipv6, Ports>, 2> ports6;
  friend bool operator==(const Table&, const Table&) = default;
};

Result<Table> ReadTableOnce(Channel* nft) {
  Table table;
  MOUNTD_ASSIGN(const std::vector<FoundElement> sources,
                ElementsOfSet(nft, "src6"));
  for (const FoundElement& one : sources) {
    table.ipv6[LinkOf(one.key)] = AddressAt<Ipv6>(one.key, kLinkNameBytes);
  }
  MOUNTD_ASSIGN(const std::vector<FoundElement> open,
                ElementsOfSet(nft, "open"));
  for (const FoundElement& one : open) {
    table.open.insert(LinkOf(one.key));
  }
  MOUNTD_ASSIGN(table.ports4[0], PortsOfMap<Ipv4>(nft, "pm4", false, 4));
  MOUNTD_ASSIGN(table.ports4[1], PortsOfMap<Ipv4>(nft, "pm4h", true, 4));
  MOUNTD_ASSIGN(table.ports6[0], PortsOfMap<Ipv6>(nft, "pm6", false, 6));
  MOUNTD_ASSIGN(table.ports6[1], PortsOfMap<Ipv6>(nft, "pm6h", true, 6));
  return table;
}

// Reads the table until no transaction came meanwhile, or until some readings
// in a row agree. The kernel notices only some of the changes during a dump
// (NLM_F_DUMP_INTR), and none between the dumps of two sets, so that an
// existing map could be missing. A transaction on another program's table also
// raises the generation and marks the dumps. But it does not change this table,
// so the readings agree however often such transactions come.
//
// Two readings that agree are not enough. An element may be removed during a
// dump of several parts and be added again between two dumps, and could hide
// the same map in both.
Result<Table> ReadTable(Channel* nft, const Config& config) {
  constexpr int kTries = 16;
  constexpr int kAgreeing = 3;
  if (config.networks.empty()) {
    return Table{};  // then there is no table of mountd's, perhaps no nf_tables
  }
  std::optional<Table> last;
  int agreeing = 0;
  for (int i = 0; i < kTries; ++i) {
    MOUNTD_ASSIGN(const std::uint32_t before, GenerationOf(nft));
    MOUNTD_ASSIGN(Table table, ReadTableOnce(nft));
    MOUNTD_ASSIGN(const std::uint32_t after, GenerationOf(nft));
    agreeing = last == table ? agreeing + 1 : 1;
    if (before == after || agreeing == kAgreeing) {
      return table;
    }
    last = std::move(table);
  }
  return MakeError(Code::kUnavailable, "list networks", "inet mountd",
                   "the table changed during each reading; call again");
}

// Returns the address that HostLinkName made the name from.
std::optional<Ipv4> AddressOf(const std::string& link) {
  Ipv4 address{};
  // sscanf(3) also takes upper case, fewer digits and text after them, so
  // compare the whole name.
  if (std::sscanf(link.c_str(), "md%2hhx%2hhx%2hhx%2hhx", &address[0],
                  &address[1], &address[2], &address[3]) != 4 ||
      HostLinkName(address) != link) {
    return std::nullopt;
  }
  return address;
}

// Writes the ports into rows. A row holds kMaxPorts, so a network with more
// ports has several rows.
void PutRows(FoundNetwork row, const std::vector<PortMap>& ports,
             std::vector<FoundNetwork>* all) {
  std::size_t at = 0;
  do {
    const std::size_t count =
        std::min(ports.size() - at, std::size_t{exec::kMaxPorts});
    std::copy_n(ports.begin() + static_cast<long>(at), count,
                row.ports.begin());
    row.port_count = static_cast<std::uint32_t>(count);
    all->push_back(row);
    at += count;
  } while (at < ports.size());
}

// Reads the addresses of a link. Returns false if no executor gives a link such
// a name. The name of a link with only IPv6 does not contain the address, so
// the table must have it.
bool ReadAddresses(const Table& table, const std::string& link,
                   FoundNetwork* row) {
  row->ipv4 = AddressOf(link).value_or(Ipv4{});
  if (const auto ipv6 = table.ipv6.find(link); ipv6 != table.ipv6.end()) {
    row->ipv6 = ipv6->second;
  }
  return HasAddress(*row) && LinkNameOf(*row) == link;
}

void PutLink(const Table& table, const std::string& link, FoundNetwork row,
             std::vector<FoundNetwork>* all) {
  row.flags = table.open.contains(link) ? 0U : exec::kIsolated;
  Ports ports;
  for (const std::size_t i : {0U, 1U}) {
    if (!IsNone(row.ipv4)) {
      Add(table.ports4.at(i), row.ipv4, &ports);
    }
    if (!IsNone(row.ipv6)) {
      Add(table.ports6.at(i), row.ipv6, &ports);
    }
  }
  PutRows(row, Together(ports), all);
}

}  // namespace

Result<std::vector<FoundNetwork>> ListNetworks(const Context& context) {
  MOUNTD_ASSIGN(Access access, OpenAccess(context, ""));
  MOUNTD_ASSIGN(
      const std::vector<std::string> names,
      exec::Named(context.kernel.List(context.markers, kMaxNamespaces),
                  "getdents64", "namespaces"));
  std::map<std::string, std::uint64_t> namespaces;
  for (const std::string& name : names) {
    access.place.name = name;
    const Result<Pin> pin = FindPin(context.kernel, access.place);
    // Something else at the name is not mountd's, so skip it.
    if (!pin && pin.error().code != Code::kFailedPrecondition) {
      return pin.error();
    }
    if (pin && pin->ours && pin->inode != 0) {
      namespaces[name] = pin->inode;
    }
  }
  std::vector<Message> messages;
  messages.emplace_back(RTM_GETLINK, NLM_F_DUMP, ifinfomsg{});
  MOUNTD_ASSIGN(const std::vector<Answer> links,
                access.route->Ask(messages, "RTM_GETLINK", "links"));
  MOUNTD_ASSIGN(const Table table, ReadTable(access.netfilter, context.config));
  std::vector<FoundNetwork> all;
  std::map<std::string, std::uint64_t> bare = namespaces;
  for (const Answer& answer : links) {
    const auto attributes = AttributesAfter<ifinfomsg>(answer.payload);
    const std::string link = attributes.Text(IFLA_IFNAME);
    const std::string owner = attributes.Text(IFLA_IFALIAS);
    FoundNetwork row;
    if (!ReadAddresses(table, link, &row) || owner.empty() ||
        owner.size() > kMaxNameBytes) {
      continue;
    }
    row.allocation = exec::ToWire(owner);
    if (const auto home = namespaces.find(owner); home != namespaces.end()) {
      row.netns_inode = home->second;
      bare.erase(owner);
    }
    PutLink(table, link, row, &all);
  }
  for (const auto& [name, inode] : bare) {
    FoundNetwork row;
    row.allocation = exec::ToWire(name);
    row.netns_inode = inode;
    all.push_back(row);
  }
  return all;
}

}  // namespace mountd::netns
