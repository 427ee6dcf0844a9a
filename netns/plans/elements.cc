// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/plans/elements.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <net/if.h>

#include <algorithm>
#include <cstring>

#include "mountd/plan/protocols.h"
#include "netns/address/address.h"
#include "netns/events/attributes.h"
#include "netns/plans/ruleset.h"

namespace mountd::netns {
namespace {

// Returns a link's name as a key: IFNAMSIZ bytes, filled up with NULs.
ElementBytes LinkKey(const std::string& link) {
  std::array<std::uint8_t, IFNAMSIZ> name{};
  std::copy_n(link.begin(), std::min(link.size(), name.size()), name.begin());
  return ElementBytes().Append(name);
}

// The port maps of one family: for any host address, and for one host address.
struct PortMaps {
  const char* any;
  const char* one;
};
constexpr PortMaps kPortMaps4 = {"pm4", "pm4h"};
constexpr PortMaps kPortMaps6 = {"pm6", "pm6h"};

// Returns the port's host address; all zero means any of the family.
template <typename Address>
Address HostOf(const exec::PortMap& port) {
  Address host{};
  std::copy_n(port.host_address.begin(), host.size(), host.begin());
  return host;
}

template <typename Address>
Element PortElement(const char* set, const exec::PortMap& port,
                    std::uint8_t protocol, std::uint16_t offset,
                    const Address& container) {
  const auto host_port = static_cast<std::uint16_t>(port.host_port + offset);
  const auto host = HostOf<Address>(port);
  Element element{set, {}, {}, host_port};
  if (!IsNone(host)) {
    element.key.Append(host);
  }
  element.key.Append({&protocol, 1}).AppendPort(host_port);
  element.data.Append(container).AppendPort(
      static_cast<std::uint16_t>(port.container_port + offset));
  return element;
}

template <typename Address>
void AddPort(const char* set, const exec::PortMap& port,
             const Address& container, std::vector<Element>* elements) {
  for (const auto& [bit, protocol] : exec::kProtocolNumbers) {
    for (std::uint16_t i = 0; (port.protocols & bit) != 0 && i < port.count;
         ++i) {
      elements->push_back(PortElement(set, port, protocol, i, container));
    }
  }
}

// Adds the port maps. Keeps the elements of one set together, because they go
// into one message.
template <typename Address>
void AddPorts(const PortMaps& maps, std::span<const exec::PortMap> ports,
              std::uint8_t other_family, const Address& container,
              std::vector<Element>* elements) {
  for (const bool of_one : {false, true}) {
    for (const exec::PortMap& port : ports) {
      if (port.host_family != other_family &&
          IsNone(HostOf<Address>(port)) != of_one) {
        AddPort(of_one ? maps.one : maps.any, port, container, elements);
      }
    }
  }
}

// Returns the element that lets `link` send from `address`.
template <typename Address>
Element SourceElement(const char* set, const std::string& link,
                      const Address& address) {
  Element element{set, LinkKey(link), {}, 0};
  element.key.Append(address);
  return element;
}

void PutElement(Message* message, const Element& element, bool with_data) {
  message->Begin(NFTA_LIST_ELEM)
      .Begin(NFTA_SET_ELEM_KEY)
      .PutBytes(NFTA_DATA_VALUE, std::as_bytes(element.key.bytes()))
      .End();
  if (with_data && !element.data.empty()) {
    message->Begin(NFTA_SET_ELEM_DATA)
        .PutBytes(NFTA_DATA_VALUE, std::as_bytes(element.data.bytes()))
        .End();
  }
  message->End();
}

// Makes a message for `elements`, which are all of one set.
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
  // nfnetlink takes the subsystem of the whole batch from here.
  header.res_id = htons(NFNL_SUBSYS_NFTABLES);
  return Message(type, 0, header);
}

// Returns whether the answer's element has these data. Empty `data` match the
// data of any element.
bool HasData(const Answer& answer, const ElementBytes& data) {
  const std::span<const std::byte> found =
      AttributesAfter<nfgenmsg>(answer.payload)
          .Nested(NFTA_SET_ELEM_LIST_ELEMENTS)
          .Nested(NFTA_LIST_ELEM)
          .Nested(NFTA_SET_ELEM_DATA)
          .Bytes(NFTA_DATA_VALUE);
  return data.empty() || std::ranges::equal(found, std::as_bytes(data.bytes()));
}

// Returns the number of elements at the front that are of one set; at most as
// many as fit into one attribute.
std::size_t CountOfSameSet(std::span<const Element> elements) {
  // An attribute's length has 16 bits.
  constexpr std::size_t kMost = 400;
  std::size_t count = 1;
  while (count < std::min(elements.size(), kMost) &&
         std::string_view(elements[count].set) == elements[0].set) {
    ++count;
  }
  return count;
}

void PutMessages(int type, int flags, std::span<const Element> elements,
                 std::vector<Message>* messages) {
  while (!elements.empty()) {
    const std::size_t count = CountOfSameSet(elements);
    messages->push_back(ElementsMessage(type, flags, elements.first(count),
                                        type == NFT_MSG_NEWSETELEM));
    elements = elements.subspan(count);
  }
}

// Runs one transaction. Returns 0, or the errno that the transaction failed
// with.
Result<int> Transact(Channel* nft, int type, int flags,
                     std::span<const Element> elements) {
  std::vector<Message> messages;
  messages.push_back(BatchMarker(NFNL_MSG_BATCH_BEGIN));
  PutMessages(type, flags, elements, &messages);
  messages.push_back(BatchMarker(NFNL_MSG_BATCH_END));
  return nft->Transact(messages);
}

// Returns the set's name and the bytes as one text. No name has a NUL.
std::string TextOf(std::string_view set, const ElementBytes& bytes) {
  std::string text(set);
  text += '\0';
  for (const std::uint8_t byte : bytes.bytes()) {
    text += static_cast<char>(byte);
  }
  return text;
}

// Returns the first host port of `elements` that the table already maps, to
// whatever address; 0 if the table maps none of them.
Result<std::uint16_t> FindTakenPort(Channel* nft, std::vector<Element> elements,
                                    const std::string& object) {
  for (Element& element : elements) {
    // Without data any map of the port counts, whoever made it.
    element.data = {};
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

ElementBytes& ElementBytes::Append(std::span<const std::uint8_t> part) {
  const std::size_t fits = std::min(part.size(), kMost - size_);
  std::copy_n(part.begin(), fits, bytes_.begin() + size_);
  // Each part of a concatenation fills whole registers of four bytes.
  size_ = std::min((size_ + fits + 3) / 4 * 4, kMost);
  return *this;
}

ElementBytes& ElementBytes::AppendPort(std::uint16_t port) {
  const std::array<std::uint8_t, 2> big_endian = {
      static_cast<std::uint8_t>(port >> 8U),
      static_cast<std::uint8_t>(port & 0xFFU)};
  return Append(big_endian);
}

ElementKeys::ElementKeys(const std::vector<Element>& elements) {
  for (const Element& element : elements) {
    keys_.push_back(TextOf(element.set, element.key));
    with_data_.push_back(keys_.back() + TextOf("", element.data));
  }
  std::sort(keys_.begin(), keys_.end());
  std::sort(with_data_.begin(), with_data_.end());
}

bool ElementKeys::Has(std::string_view set, const ElementBytes& key) const {
  return std::binary_search(keys_.begin(), keys_.end(), TextOf(set, key));
}

bool ElementKeys::Has(const Element& element) const {
  return std::binary_search(
      with_data_.begin(), with_data_.end(),
      TextOf(element.set, element.key) + TextOf("", element.data));
}

std::vector<Element> ElementsOf(const exec::NetworkPlan& plan) {
  std::vector<Element> elements;
  const auto ports =
      std::span(plan.ports)
          .first(std::min<std::size_t>(plan.port_count, plan.ports.size()));
  if (!IsNone(plan.ipv4)) {
    AddPorts(kPortMaps4, ports, 6, plan.ipv4, &elements);
  }
  if (!IsNone(plan.ipv6)) {
    AddPorts(kPortMaps6, ports, 4, plan.ipv6, &elements);
  }
  const std::vector<Element> of_link = LinkElementsOf(plan);
  elements.insert(elements.end(), of_link.begin(), of_link.end());
  return elements;
}

std::vector<Element> LinkElementsOf(const exec::NetworkPlan& plan) {
  std::vector<Element> elements;
  if (!HasAddress(plan)) {
    return elements;
  }
  const std::string host_link = LinkNameOf(plan);
  if (!IsNone(plan.ipv4)) {
    elements.push_back(SourceElement("src4", host_link, plan.ipv4));
  }
  if (!IsNone(plan.ipv6)) {
    elements.push_back(SourceElement("src6", host_link, plan.ipv6));
  }
  if ((plan.flags & exec::kIsolated) == 0) {
    elements.push_back(Element{"open", LinkKey(host_link), {}, 0});
  }
  return elements;
}

Element VersionElement(std::uint32_t version) {
  std::array<std::uint8_t, sizeof(version)> bytes{};
  std::memcpy(bytes.data(), &version, sizeof(version));
  Element element{"version", {}, {}, 0};
  element.key.Append(bytes);
  return element;
}

Result<std::vector<bool>> FindElements(Channel* nft,
                                       const std::vector<Element>& elements,
                                       const std::string& object) {
  // Ask in portions, because the kernel reserves a page for each answer,
  // however short.
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
      // ENOENT: the element, its set or the table is not there.
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
  // EXCL: an element that is there already fails the whole transaction.
  const Result<int> answer =
      Transact(nft, NFT_MSG_NEWSETELEM, NLM_F_CREATE | NLM_F_EXCL, elements);
  if (!answer) {
    // The answer is lost, so the elements may be in the table all the same.
    IgnoreBecauseBestEffort(DeleteElements(nft, elements, object));
    return answer.error();
  }
  if (*answer == 0) {
    return Ok();
  }
  std::string why;
  if (*answer == EEXIST) {
    MOUNTD_ASSIGN(const std::uint16_t port,
                  FindTakenPort(nft, elements, object));
    why = port == 0 ? ""
                    : "host port " + std::to_string(port) +
                          " is already taken; ask for another";
  }
  return ErrnoError(*answer, "NFT_MSG_NEWSETELEM", object, why);
}

Result<void> ChangeElements(Channel* nft, const std::vector<Element>& gone,
                            const std::vector<Element>& added,
                            const std::string& object) {
  std::vector<Message> messages;
  messages.push_back(BatchMarker(NFNL_MSG_BATCH_BEGIN));
  // The deletions come first, because one of the added elements may have the
  // key of a deleted one.
  PutMessages(NFT_MSG_DELSETELEM, 0, gone, &messages);
  PutMessages(NFT_MSG_NEWSETELEM, NLM_F_CREATE | NLM_F_EXCL, added, &messages);
  messages.push_back(BatchMarker(NFNL_MSG_BATCH_END));
  MOUNTD_ASSIGN(const int failed, nft->Transact(messages));
  if (failed == 0) {
    return Ok();
  }
  std::string why;
  if (failed == EEXIST) {
    std::vector<Element> others = added;
    const ElementKeys deleted(gone);
    std::erase_if(others, [&](const Element& one) {
      return deleted.Has(one.set, one.key);
    });
    MOUNTD_ASSIGN(const std::uint16_t port,
                  FindTakenPort(nft, std::move(others), object));
    why = port == 0 ? ""
                    : "host port " + std::to_string(port) +
                          " is already taken; ask for another";
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
  // Delete only elements that are there with our data: a missing element would
  // abort the whole transaction, and a port may be another network's by now.
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
