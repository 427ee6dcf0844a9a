// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/goplugin/host_offer.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "agent/nomad/goplugin/base64.h"

namespace mountd::goplugin {
namespace {

constexpr int kCoreVersion = 1;

std::string Take(const char* name) {
  const char* value = ::getenv(name);
  std::string taken = value == nullptr ? "" : value;
  ::unsetenv(name);
  return taken;
}

// Leaves out words that are no numbers, as hosts' own library does.
std::vector<int> NumbersOf(std::string_view text) {
  std::vector<int> numbers;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    int number = 0;
    const auto read =
        std::from_chars(word.data(), word.data() + word.size(), number);
    if (read.ec == std::errc() && read.ptr == word.data() + word.size()) {
      numbers.push_back(number);
    }
    text.remove_prefix(comma == std::string_view::npos ? text.size()
                                                       : comma + 1);
  }
  return numbers;
}

}  // namespace

Result<HostOffer> TakeHostOffer(const Cookie& cookie) {
  if (Take(cookie.key) != cookie.value) {
    return MakeError(Code::kFailedPrecondition, "start", cookie.key,
                     "the environment does not have the host's cookie");
  }
  HostOffer offer;
  offer.versions = NumbersOf(Take("PLUGIN_PROTOCOL_VERSIONS"));
  offer.socket_directory = Take("PLUGIN_UNIX_SOCKET_DIR");
  offer.socket_group = Take("PLUGIN_UNIX_SOCKET_GROUP");
  offer.client_certificate = Take("PLUGIN_CLIENT_CERT");
  offer.asks_for_multiplexing = !Take("PLUGIN_MULTIPLEX_GRPC").empty();
  // Only plugins that listen on TCP need the ports.
  Take("PLUGIN_MIN_PORT");
  Take("PLUGIN_MAX_PORT");
  return offer;
}

std::string HandshakeLine(const HostOffer& offer,
                          const HandshakeAnswer& answer) {
  std::string line = std::to_string(kCoreVersion) + "|" +
                     std::to_string(answer.version) + "|unix|" + answer.socket +
                     "|grpc|" + Base64WithoutPadding(answer.certificate);
  // An older host would take a seventh field for a part of the certificate.
  if (offer.asks_for_multiplexing) {
    line += "|false";
  }
  return line + "\n";
}

}  // namespace mountd::goplugin
