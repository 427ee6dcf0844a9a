// SPDX-License-Identifier: LGPL-2.1-or-later
// Ids, names, numbers and addresses, as callers and root write them. Each
// accepted value keeps the rules that other code relies on, and means what is
// printed for it.
#include <string>
#include <string_view>

#include "mountd/base/names.h"
#include "mountd/base/number.h"
#include "mountd/base/number_range.h"
#include "mountd/base/paths.h"
#include "mountd/base/trace_parent.h"
#include "netns/address/address.h"
#include "tests/fuzz/fuzz_input.h"

namespace mountd::fuzz {
namespace {

void CheckNames(std::string_view text) {
  const Result<Name> name = Name::Parse("allocation", text);
  Require(name.has_value() == IsValidName(text), "Name is not IsValidName");
  if (name) {
    Require(name->str() == text, "a name was changed");
    Require(text.find_first_of(std::string_view("/\0 \n", 4)) ==
                    std::string_view::npos &&
                text != "." && text != ".." && !text.empty() &&
                text.size() <= kMaxNameBytes,
            "a name is no path component");
    Require(paths::IsNormalised("/" + std::string(text)),
            "a name has a meaning in a path");
  }
  if (CheckVolumeId(text)) {
    Require(IsValidUtf8(text) && !text.empty() &&
                text.find('\0') == std::string_view::npos,
            "a volume id is no text");
  }
}

template <typename Key>
void CheckKey(std::string_view text) {
  const Result<Key> key = Key::Parse(text);
  if (key) {
    Require(key->str() == text, "a key was changed");
    Require(IsValidName(text), "a key is no name");
  }
}

void CheckKeys(std::string_view text) {
  CheckKey<VolumeKey>(text);
  CheckKey<InstanceKey>(text);
  const std::size_t half = text.size() / 2;
  const VolumeKey derived =
      VolumeKey::Derive(text.substr(0, half), text.substr(half));
  Require(VolumeKey::Parse(derived.str()).has_value(),
          "a derived volume key is none");
  if (half > 0) {
    Require(derived != VolumeKey::Derive(text.substr(0, half - 1),
                                         text.substr(half - 1)),
            "two volumes have one key");
  }
  const InstanceKey instance =
      InstanceKey::Derive(text.substr(0, half), text.substr(half));
  Require(InstanceKey::Parse(instance.str()).has_value(),
          "a derived instance key is none");
  Require(IsValidName(paths::PluginSocket(instance.str())),
          "a socket's name is none");
}

template <typename Number>
void CheckNumber(std::string_view text) {
  if (const auto number = ParseNumber<Number>(text)) {
    Require(ParseNumber<Number>(std::to_string(*number)) == number,
            "a number is another one");
    Require(text.find_first_not_of("-0123456789") == std::string_view::npos,
            "a number has other digits");
  }
}

void CheckNumbers(std::string_view text) {
  CheckNumber<std::uint16_t>(text);
  CheckNumber<std::uint64_t>(text);
  CheckNumber<std::int64_t>(text);
  for (const std::uint32_t most : {65'535U, UINT32_MAX - 1}) {
    if (const auto range = ParseNumberRange(text, most)) {
      Require(range->first >= 1 && range->first <= range->last &&
                  range->last <= most,
              "a range is out of its bounds");
      const auto again = ParseNumberRange(
          std::to_string(range->first) + "-" + std::to_string(range->last),
          most);
      Require(
          again && again->first == range->first && again->last == range->last,
          "a range is another one");
    }
  }
}

template <typename Parse>
void CheckAddress(const Parse& parse, std::string_view text) {
  const auto address = parse(text);
  if (address) {
    Require(text.find('\0') == std::string_view::npos,
            "an address ends before its text");
    const auto again = parse(netns::ToString(*address));
    Require(again && *again == *address, "an address is another one");
  }
}

template <typename Parse>
void CheckRange(const Parse& parse, std::string_view text) {
  const auto range = parse(text);
  if (!range) {
    return;
  }
  Require(text.find('\0') == std::string_view::npos,
          "a range ends before its text");
  const auto again = parse(netns::ToString(*range));
  Require(again && again->base == range->base && again->prefix == range->prefix,
          "a range of addresses is another one");
  Require(range->Contains(range->base) &&
              range->Contains(netns::HostAddress(*range)),
          "the host's address is not in its range");
  Require(!netns::IsUsable(*range, range->base) &&
              !netns::IsUsable(*range, netns::HostAddress(*range)),
          "an allocation may have the host's address");
  Require(Overlap(*range, *range), "a range does not overlap itself");
}

void CheckAddresses(std::string_view text) {
  CheckAddress(netns::ParseIpv4, text);
  CheckAddress(netns::ParseIpv6, text);
  CheckAddress(netns::ParseHostIp, text);
  CheckRange(netns::ParseIpv4Range, text);
  CheckRange(netns::ParseIpv6Range, text);
  if (const auto address = netns::ParseIpv4(text)) {
    Require(IsValidName(netns::HostLinkName(*address)) &&
                netns::HostLinkName(*address).size() < 16,
            "a link's name is none");
  }
  if (const auto address = netns::ParseIpv6(text)) {
    Require(IsValidName(netns::HostLinkName(netns::Ipv4{}, *address)) &&
                netns::HostLinkName(netns::Ipv4{}, *address).size() < 16,
            "an IPv6 link's name is none");
  }
}

// The text becomes a header of plugins' RPCs and a variable of root's programs.
void CheckTraceParent(std::string_view text) {
  if (const auto parent = ParseTraceParent(text)) {
    const std::string again = ToText(*parent);
    Require(again.size() == 55 && ParseTraceParent(again) == parent,
            "a trace is another one");
    Require(again.substr(2, 51) == text.substr(2, 51),
            "a trace's ids are others");
    Require(parent->trace_id != TraceId() && parent->span_id != SpanId(),
            "a trace has an id of zeros");
  }
  if (IsRequestId(text)) {
    Require(text.find_first_of(std::string_view("\0 \n\x1b\x7f", 5)) ==
                    std::string_view::npos &&
                text.size() <= kMaxRequestId,
            "a request's id is no word");
  }
}

}  // namespace
}  // namespace mountd::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::string_view text = mountd::fuzz::TextOf(data, size);
  mountd::fuzz::CheckNames(text);
  mountd::fuzz::CheckKeys(text);
  mountd::fuzz::CheckNumbers(text);
  mountd::fuzz::CheckAddresses(text);
  mountd::fuzz::CheckTraceParent(text);
  return 0;
}
