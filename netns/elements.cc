// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/elements.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <net/if.h>

#include <algorithm>
#include <cstring>

#include "mountd/exec/protocols.h"
#include "netns/address.h"
#include "netns/attributes.h"
#include "netns/ruleset.h"

namespace mountd::netns {
namespace {

using Bytes = std::vector<std::uint8_t>;

// Each part of a concatenation is padded to 4 bytes.
void Append(Bytes* bytes, std::span<const std::uint8_t> part) {
  bytes->insert(bytes->end(), part.begin(), part.end());
  bytes->resize((bytes->size() + 3) / 4 * 4);
}

void AppendPort(Bytes* bytes, std::uint16_t port) {
  const std::array<std::uint8_t, 2> big_endian = {
      static_cast<std::uint8_t>(port >> 8U),
      static_cast<std::uint8_t>(port & 0xFFU)};
  Append(bytes, big_endian);
}

Bytes LinkKey(const std::string& link) {
  Bytes key(link.begin(), link.end());
  key.resize(IFNAMSIZ);
  return key;
}

// The map of one family: those of any host address, and those of one.
struct PortMaps {
  const char* any;
  const char* one;
};
constexpr PortMaps kPortMaps4 = {"pm4", "pm4h"};
constexpr PortMaps kPortMaps6 = {"pm6", "pm6h"};

template <typename Address>
Element PortElement(const PortMaps& maps, const exec::PortMap& port,
                    std::uint8_t protocol, std::uint16_t offset,
                    const Address& container) {
  const auto host_port = static_cast<std::uint16_t>(port.host_port + offset);
  Address host{};
  std::copy_n(port.host_address.begin(), host.size(), host.begin());
  Element element{IsNone(host) ? maps.any : maps.one, {}, {}, host_port};
  if (!IsNone(host)) {
    Append(&element.key, host);
  }
  Append(&element.key, {&protocol, 1});
  AppendPort(&element.key, host_port);
  Append(&element.data, container);
  AppendPort(&element.data,
             static_cast<std::uint16_t>(port.container_port + offset));
  return element;
}

void AddPortElements(const exec::NetworkPlan& plan, const exec::PortMap& port,
                     std::vector<Element>* elements) {
  const bool ipv4 = port.host_family != 6;
  const bool ipv6 = port.host_family != 4 && !IsNone(plan.ipv6);
  for (const auto& [bit, protocol] : exec::kProtocolNumbers) {
    for (std::uint16_t i = 0; (port.protocols & bit) != 0 && i < port.count;
         ++i) {
      if (ipv4) {
        elements->push_back(
            PortElement(kPortMaps4, port, protocol, i, plan.ipv4));
      }
      if (ipv6) {
        elements->push_back(
            PortElement(kPortMaps6, port, protocol, i, plan.ipv6));
      }
    }
  }
}

template <typename Address>
Element SourceElement(const char* set, const std::string& link,
                      const Address& address) {
  Element element{set, LinkKey(link), {}, 0};
  Append(&element.key, address);
  return element;
}

void PutElement(Message* message, const Element& element, bool with_data) {
  message->Begin(NFTA_LIST_ELEM)
      .Begin(NFTA_SET_ELEM_KEY)
      .PutBytes(NFTA_DATA_VALUE, std::as_bytes(std::span(element.key)))
      .End();
  if (with_data && !element.data.empty()) {
    message->Begin(NFTA_SET_ELEM_DATA)
        .PutBytes(NFTA_DATA_VALUE, std::as_bytes(std::span(element.data)))
        .End();
  }
  message->End();
}

// `elements` are of one set.
Message ElementsMessage(int type, int flags, std::span<const Element> elements,
                        bool with_data) {
  constexpr std::size_t kBytesOfOne = 128;
  nfgenmsg header = {};
  header.nfgen_family = NFPROTO_INET;
  header.version = NFNETLINK_V0;
  Message message((NFNL_SUBSYS_NFTABLES << 8) | type, flags,
                  std::as_bytes(std::span(&header, 1)),
                  Message::kUsualBytes + elements.size() * kBytesOfOne);
  message.PutText(NFTA_SET_ELEM_LIST_TABLE, kTable)
      .PutText(NFTA_SET_ELEM_LIST_SET, elements.front().set)
      .Begin(NFTA_SET_ELEM_LIST_ELEMENTS);
  for (const Element& element : elements) {
    PutElement(&message, element, with_data);
  }
  message.End();
  return message;
}

Message BatchMarker(int type) {
  nfgenmsg header = {};
  header.version = NFNETLINK_V0;
  header.res_id = htons(NFNL_SUBSYS_NFTABLES);
  return Message(type, 0, header);
}

bool HasData(const Answer& answer, const Bytes& data) {
  const std::span<const std::byte> found =
      AttributesAfter<nfgenmsg>(answer.payload)
          .Nested(NFTA_SET_ELEM_LIST_ELEMENTS)
          .Nested(NFTA_LIST_ELEM)
          .Nested(NFTA_SET_ELEM_DATA)
          .Bytes(NFTA_DATA_VALUE);
  const std::span<const std::byte> wanted = std::as_bytes(std::span(data));
  return data.empty() ||
         std::equal(found.begin(), found.end(), wanted.begin(), wanted.end());
}

// Elements of one set that stand beside each other, as many as an attribute
// may hold.
std::size_t CountOfSameSet(std::span<const Element> elements) {
  constexpr std::size_t kMost = 400;
  std::size_t count = 1;
  while (count < std::min(elements.size(), kMost) &&
         std::string_view(elements[count].set) == elements[0].set) {
    ++count;
  }
  return count;
}

// One transaction: 0, or the errno that it failed with.
Result<int> Transact(Channel* nft, int type, int flags,
                     std::span<const Element> elements) {
  std::vector<Message> messages;
  messages.push_back(BatchMarker(NFNL_MSG_BATCH_BEGIN));
  while (!elements.empty()) {
    const std::size_t count = CountOfSameSet(elements);
    messages.push_back(ElementsMessage(type, flags, elements.first(count),
                                       type == NFT_MSG_NEWSETELEM));
    elements = elements.subspan(count);
  }
  messages.push_back(BatchMarker(NFNL_MSG_BATCH_END));
  MOUNTD_ASSIGN(const std::vector<Answer> answers,
                nft->Exchange(messages, messages.size() - 2));
  for (const Answer& answer : answers) {
    if (answer.err != 0) {
      return answer.err;
    }
  }
  return 0;
}

// Which host port is there already, with whatever data; 0 if none.
Result<std::uint16_t> FindTakenPort(Channel* nft, std::vector<Element> elements,
                                    const std::string& object) {
  for (Element& element : elements) {
    element.data.clear();
  }
  MOUNTD_ASSIGN(const std::vector<bool> found,
                FindElements(nft, elements, object));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (found[i] && elements[i].host_port != 0) {
      return elements[i].host_port;
    }
  }
  return std::uint16_t{0};
}

}  // namespace

std::vector<Element> ElementsOf(const exec::NetworkPlan& plan) {
  std::vector<Element> elements;
  if (IsNone(plan.ipv4)) {
    return elements;
  }
  const std::string host_link = HostLinkName(plan.ipv4);
  const std::size_t count =
      std::min<std::size_t>(plan.port_count, plan.ports.size());
  for (const exec::PortMap& port : std::span(plan.ports).first(count)) {
    AddPortElements(plan, port, &elements);
  }
  // Those of one set go into one message.
  std::stable_sort(elements.begin(), elements.end(),
                   [](const Element& a, const Element& b) {
                     return std::string_view(a.set) < b.set;
                   });
  elements.push_back(SourceElement("src4", host_link, plan.ipv4));
  if (!IsNone(plan.ipv6)) {
    elements.push_back(SourceElement("src6", host_link, plan.ipv6));
  }
  if ((plan.flags & exec::kIsolated) == 0) {
    elements.push_back(Element{"open", LinkKey(host_link), {}, 0});
  }
  return elements;
}

Element VersionElement(std::uint32_t version) {
  Element element{"version", Bytes(sizeof(version)), {}, 0};
  std::memcpy(element.key.data(), &version, sizeof(version));
  return element;
}

Result<std::vector<bool>> FindElements(Channel* nft,
                                       const std::vector<Element>& elements,
                                       const std::string& object) {
  // The kernel reserves a page for each answer, however short.
  constexpr std::size_t kAtOnce = 256;
  std::vector<bool> found(elements.size(), false);
  for (std::size_t first = 0; first < elements.size(); first += kAtOnce) {
    const auto some = std::span(elements).subspan(
        first, std::min(kAtOnce, elements.size() - first));
    std::vector<Message> messages;
    messages.reserve(some.size());
    for (const Element& element : some) {
      messages.push_back(
          ElementsMessage(NFT_MSG_GETSETELEM, 0, {&element, 1}, false));
    }
    MOUNTD_ASSIGN(const std::vector<Answer> answers,
                  nft->Exchange(messages, messages.size() - 1));
    for (const Answer& answer : answers) {
      if (answer.err != 0 && answer.err != ENOENT) {
        return ErrnoError(answer.err, "NFT_MSG_GETSETELEM", object);
      }
      if (answer.type == ((NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_NEWSETELEM)) {
        found[first + answer.request] =
            HasData(answer, some[answer.request].data);
      }
    }
  }
  return found;
}

Result<void> AddElements(Channel* nft, const std::vector<Element>& elements,
                         const std::string& object) {
  MOUNTD_ASSIGN(
      const int failed,
      Transact(nft, NFT_MSG_NEWSETELEM, NLM_F_CREATE | NLM_F_EXCL, elements));
  if (failed == 0) {
    return Ok();
  }
  std::string why;
  if (failed == EEXIST) {
    MOUNTD_ASSIGN(const std::uint16_t port,
                  FindTakenPort(nft, elements, object));
    why = port == 0 ? "" : "host port " + std::to_string(port) + " is taken";
  }
  return ErrnoError(failed, "NFT_MSG_NEWSETELEM", object, why);
}

Result<void> CompleteElements(Channel* nft,
                              const std::vector<Element>& elements,
                              const std::string& object, bool* some_missing) {
  MOUNTD_ASSIGN(const std::vector<bool> found,
                FindElements(nft, elements, object));
  std::vector<Element> missing;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (!found[i]) {
      missing.push_back(elements[i]);
    }
  }
  *some_missing = !missing.empty();
  return missing.empty() ? Ok() : AddElements(nft, missing, object);
}

Result<void> DeleteElements(Channel* nft, const std::vector<Element>& elements,
                            const std::string& object) {
  // One that is missing aborts its whole transaction, and a port may by now be
  // another network's: so only what is there and ours.
  MOUNTD_ASSIGN(const std::vector<bool> found,
                FindElements(nft, elements, object));
  std::vector<Element> present;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (found[i]) {
      present.push_back(elements[i]);
    }
  }
  if (present.empty()) {
    return Ok();
  }
  MOUNTD_ASSIGN(const int failed,
                Transact(nft, NFT_MSG_DELSETELEM, 0, present));
  if (failed != 0) {
    return ErrnoError(failed, "NFT_MSG_DELSETELEM", object);
  }
  return Ok();
}

}  // namespace mountd::netns
