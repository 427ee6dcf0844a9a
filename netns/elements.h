// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mountd/exec/plan.h"
#include "netns/netlink.h"

// The elements of the table's maps and sets (ruleset.h), as raw nf_tables
// messages: libnftables would list every set of the host for each change.
namespace mountd::netns {

// A key or its data: concatenated parts, each padded to 4 bytes.
class ElementBytes {
 public:
  // The longest: a link's name and an IPv6 address.
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
  std::uint16_t host_port = 0;  // of a port map
};

// One network's port maps, its addresses' anti-spoofing and, unless it is
// isolated, its link among those that may talk to each other.
std::vector<Element> ElementsOf(const exec::NetworkPlan& plan);

Element VersionElement(std::uint32_t version);

// Which of `elements` are there with just these data. No table is like none.
Result<std::vector<bool>> FindElements(Channel* nft,
                                       const std::vector<Element>& elements,
                                       const std::string& object);

// All or none, also where the kernel's answer is lost. AlreadyExists names the
// host port that is mapped already.
Result<void> AddElements(Channel* nft, const std::vector<Element>& elements,
                         const std::string& object);

// Adds those that are missing.
Result<void> CompleteElements(Channel* nft,
                              const std::vector<Element>& elements,
                              const std::string& object, bool* some_missing);

// Deletes those of `elements` that are there with just these data.
Result<void> DeleteElements(Channel* nft, const std::vector<Element>& elements,
                            const std::string& object);

}  // namespace mountd::netns
