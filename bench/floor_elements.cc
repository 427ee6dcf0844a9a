// SPDX-License-Identifier: LGPL-2.1-or-later
#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <net/if.h>
#include <netinet/in.h>

#include "bench/floor_messages.h"
#include "bench/network_way.h"

namespace mountd::bench {
namespace {

constexpr char kTable[] = "floor";
constexpr std::uint8_t kProtocols[] = {IPPROTO_TCP, IPPROTO_UDP};

// The bytes of a key or of data: parts that are each padded to four bytes.
using Bytes = std::vector<std::uint8_t>;

template <typename Part>
void AppendPart(Bytes& bytes, const Part& part) {
  bytes.insert(bytes.end(), part.begin(), part.end());
  bytes.resize((bytes.size() + 3) / 4 * 4);
}

std::array<std::uint8_t, 2> BigEndian(std::uint16_t port) {
  return {static_cast<std::uint8_t>(port >> 8U),
          static_cast<std::uint8_t>(port & 0xFFU)};
}

// Adds or deletes one allocation's elements in one transaction.
class Transaction {
 public:
  Transaction(Requests& requests, int type, int flags)
      : requests_(requests), type_(type), flags_(flags) {
    Mark(NFNL_MSG_BATCH_BEGIN);
  }

  void All(const Ends& ends, const std::vector<std::uint16_t>& ports) {
    if (!ports.empty()) {
      Ports("pm4", ends.ipv4, ports);
      Ports("pm6", ends.ipv6, ports);
    }
    Bytes link(ends.name.begin(), ends.name.end());
    link.resize(IFNAMSIZ);
    Source("src4", link, ends.ipv4);
    Source("src6", link, ends.ipv6);
    BeginSet("open", NLM_F_ACK);
    AddElement(link, {});
    EndSet();
    Mark(NFNL_MSG_BATCH_END);
  }

 private:
  void Mark(int type) {
    nfgenmsg header = {};
    header.version = NFNETLINK_V0;
    header.res_id = htons(NFNL_SUBSYS_NFTABLES);
    requests_.Add(type, 0, header);
  }

  void BeginSet(const char* set, int acknowledge = 0) {
    nfgenmsg header = {};
    header.nfgen_family = NFPROTO_INET;
    header.version = NFNETLINK_V0;
    requests_
        .Add((NFNL_SUBSYS_NFTABLES << 8) | type_, flags_ | acknowledge, header)
        .PutText(NFTA_SET_ELEM_LIST_TABLE, kTable)
        .PutText(NFTA_SET_ELEM_LIST_SET, set)
        .Begin(NFTA_SET_ELEM_LIST_ELEMENTS);
  }
  void EndSet() { requests_.End(); }

  void AddElement(const Bytes& key, const Bytes& data) {
    requests_.Begin(NFTA_LIST_ELEM)
        .Begin(NFTA_SET_ELEM_KEY)
        .PutBytes(NFTA_DATA_VALUE, key.data(), key.size())
        .End();
    // A deletion needs only the key.
    if (!data.empty() && type_ == NFT_MSG_NEWSETELEM) {
      requests_.Begin(NFTA_SET_ELEM_DATA)
          .PutBytes(NFTA_DATA_VALUE, data.data(), data.size())
          .End();
    }
    requests_.End();
  }

  template <typename Address>
  void Ports(const char* map, const Address& address,
             const std::vector<std::uint16_t>& ports) {
    BeginSet(map);
    for (const std::uint16_t port : ports) {
      for (const std::uint8_t protocol : kProtocols) {
        Bytes key;
        AppendPart(key, Bytes{protocol});
        AppendPart(key, BigEndian(port));
        Bytes data;
        AppendPart(data, address);
        AppendPart(data, BigEndian(ContainerPort(port)));
        AddElement(key, data);
      }
    }
    EndSet();
  }

  template <typename Address>
  void Source(const char* set, const Bytes& link, const Address& address) {
    BeginSet(set);
    Bytes key = link;
    AppendPart(key, address);
    AddElement(key, {});
    EndSet();
  }

  Requests& requests_;
  const int type_;
  const int flags_;
};

Requests Transact(int type, int flags, const Ends& ends,
                  const std::vector<std::uint16_t>& ports) {
  Requests requests;
  Transaction(requests, type, flags).All(ends, ports);
  return requests;
}

}  // namespace

Requests AddedElements(const Ends& ends,
                       const std::vector<std::uint16_t>& ports) {
  return Transact(NFT_MSG_NEWSETELEM, NLM_F_CREATE | NLM_F_EXCL, ends, ports);
}

Requests DeletedElements(const Ends& ends,
                         const std::vector<std::uint16_t>& ports) {
  return Transact(NFT_MSG_DELSETELEM, 0, ends, ports);
}

}  // namespace mountd::bench
