// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/commands/port_text.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "mountd/base/number.h"

namespace mountd::agent {
namespace {

Error BadPort(std::string_view text) {
  return MakeError(Code::kInvalidArgument, "parse", "port " + std::string(text),
                   std::string("must be ") + kPortForm +
                       ", with an IPv6 address in brackets");
}

// Takes the text before `mark` off the front; nothing if there is no mark.
std::optional<std::string> TakeBefore(std::string_view* text, char mark) {
  const std::size_t at = text->find(mark);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  std::string before(text->substr(0, at));
  text->remove_prefix(at + 1);
  return before;
}

// Takes "[ADDRESS]:" off the front.
bool TakeIpv6(std::string_view* text, std::string* address) {
  const std::size_t end = text->find("]:");
  if (end == std::string_view::npos) {
    return false;
  }
  *address = std::string(text->substr(1, end - 1));
  text->remove_prefix(end + 2);
  return true;
}

std::vector<std::string> Split(std::string_view text) {
  std::vector<std::string> words;
  while (const std::optional<std::string> word = TakeBefore(&text, ':')) {
    words.push_back(*word);
  }
  words.emplace_back(text);
  return words;
}

}  // namespace

Result<Port> ParsePort(std::string_view text) {
  Port port;
  std::string_view rest = text;
  if (const auto label = TakeBefore(&rest, '=')) {
    port.label = *label;
  }
  if (const std::size_t slash = rest.rfind('/');
      slash != std::string_view::npos) {
    port.protocols = std::string(rest.substr(slash + 1));
    rest = rest.substr(0, slash);
  }
  if (rest.starts_with('[') && !TakeIpv6(&rest, &port.host_address)) {
    return BadPort(text);
  }
  std::vector<std::string> words = Split(rest);
  // An IPv4 address has dots, and a port has none.
  if (port.host_address.empty() &&
      words.front().find('.') != std::string::npos) {
    port.host_address = words.front();
    words.erase(words.begin());
  }
  if (words.empty() || words.size() > 2) {
    return BadPort(text);
  }
  const auto host = ParseNumber<std::uint16_t>(words.front());
  const auto container = words.size() == 1
                             ? std::optional<std::uint16_t>(std::uint16_t{0})
                             : ParseNumber<std::uint16_t>(words.back());
  if (!host || *host == 0 || !container || port.protocols.empty()) {
    return BadPort(text);
  }
  port.host = *host;
  port.container = *container;
  return port;
}

}  // namespace mountd::agent
