// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/plan/network_plans.h"
#include "netns/plans/netlink.h"

// The elements of the table's maps and sets (ruleset.h), as raw nf_tables
// messages, because libnftables would list every set of the host for each
// change.
namespace mountd::netns {

// A key or its data: parts one after the other, each padded to 4 bytes.
class ElementBytes {
 public:
  // The size of the longest key: a link's name and an IPv6 address.
  static constexpr std::size_t kMost = 32;

  ElementBytes& Append(std::span<const std::uint8_t> part);
  ElementBytes& AppendPort(std::uint16_t port);
  std::span<const std::uint8_t> bytes() const {
    return std::span(bytes_).first(size_);
  }
  bool empty() const { return size_ == 0; }

 private:
  std::array<std::uint8_t, kMost> bytes_{};
  std::size_t size_ = 0;
};

struct Element {
  const char* set;
  ElementBytes key{};
  ElementBytes data{};          // maps only
  std::uint16_t host_port = 0;  // for the error text; port maps only
};

// Returns the elements of one network: its port maps, the anti-spoofing pairs
// of its addresses and, unless the network is isolated, its link in the set of
// links that may talk to each other.
std::vector<Element> ElementsOf(const exec::NetworkPlan& plan);

// Returns those elements of the plan that have the link's name in their key. No
// other network can have them.
std::vector<Element> LinkElementsOf(const exec::NetworkPlan& plan);

Element VersionElement(std::uint32_t version);

// The elements of a list, sorted, because a network has thousands of port maps.
class ElementKeys {
 public:
  ElementKeys() = default;
  explicit ElementKeys(const std::vector<Element>& elements);

  // Returns whether the list has an element of the set with this key.
  bool Has(std::string_view set, const ElementBytes& key) const;
  // Returns whether the list has the element, with the same data.
  bool Has(const Element& element) const;

 private:
  std::vector<std::string> keys_;
  std::vector<std::string> with_data_;
};

// Returns for each of `elements` whether the table has it with exactly these
// data. An element without data matches any data. A missing table has no
// elements.
Result<std::vector<bool>> FindElements(Channel* nft,
                                       const std::vector<Element>& elements,
                                       const std::string& object);

// Adds all elements or none, also if the kernel's answer is lost. AlreadyExists
// if a host port is mapped already; the error names the port.
Result<void> AddElements(Channel* nft, const std::vector<Element>& elements,
                         const std::string& object);

// Deletes `gone` and adds `added`, all or nothing. Replaces an element that
// both have with different data. AlreadyExists as AddElements. The outcome is
// unknown if the kernel's answer is lost.
Result<void> ChangeElements(Channel* nft, const std::vector<Element>& gone,
                            const std::vector<Element>& added,
                            const std::string& object);

// Adds the missing elements.
Result<void> CompleteElements(Channel* nft,
                              const std::vector<Element>& elements,
                              const std::string& object, bool* some_missing);

// Deletes those of `elements` that the table has with exactly these data.
Result<void> DeleteElements(Channel* nft, const std::vector<Element>& elements,
                            const std::string& object);

}  // namespace mountd::netns
