// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "netns/cni/addresses.h"
#include "netns/cni/json.h"

namespace mountd::cni {

inline constexpr std::size_t kMaxResultInterfaces = 64;
inline constexpr std::size_t kMaxResultIps = 64;
inline constexpr std::size_t kMaxResultRoutes = 256;
// In each of the lists of dns.
inline constexpr std::size_t kMaxResultTexts = 32;
inline constexpr std::size_t kMaxResultTextBytes = 255;
// Of the answer to an ADD, all of it.
inline constexpr std::size_t kMaxAddAnswerBytes = 256U << 10U;

struct ResultInterface {
  std::string name;
  std::string mac;
  std::string sandbox;
  std::uint64_t mtu = 0;
};

struct ResultIp {
  Cidr address;
  std::string gateway;
  // Which of the interfaces has it; nothing where the plugin did not say.
  std::optional<std::size_t> interface;
};

struct ResultRoute {
  Cidr dst;
  std::string gw;
};

struct ResultDns {
  std::vector<std::string> nameservers;
  std::string domain;
  std::vector<std::string> search;
  std::vector<std::string> options;
};

// What an ADD answered (CNI 1.1, section 5), checked: counts and sizes are
// bounded, addresses are addresses, indices point at interfaces, texts are
// UTF-8 without control characters. Which address is where says nothing of its
// family, and a text nothing of its form: a MAC address, an interface's name
// and a name server's address are what the plugin called so.
struct PluginResult {
  std::string version;
  std::vector<ResultInterface> interfaces;
  std::vector<ResultIp> ips;
  std::vector<ResultRoute> routes;
  ResultDns dns;
};

// InvalidArgument, which names the member, or that the result is not of
// `version`. Unknown members are left alone: the next plugin may know them.
Result<PluginResult> ReadPluginResult(const Json& answer,
                                      const std::string& version);

// In the form of 1.0.0 and later, whatever version the plugins spoke: the
// member "result" of what an ADD answers. What others parse, exactly; all
// members are always there, but for the two that say otherwise:
//
//   cniVersion  string: the version that the plugins spoke
//   interfaces  array, at most 64:
//     name      text of 1 to 255 bytes
//     mac       text
//     sandbox   text; "" on the host
//     mtu       number, 1 to 2^32-1; absent where it was not told
//   ips         array, at most 64:
//     address   "ADDRESS/PREFIX"
//     gateway   "ADDRESS", or ""
//     interface number, an index into interfaces; absent where it was not told
//   routes      array, at most 256:
//     dst       "ADDRESS/PREFIX"
//     gw        "ADDRESS", or ""
//   dns
//     nameservers, search, options
//               arrays of at most 32 texts
//     domain    text
//
// A text is a string of 0 to 255 bytes of UTF-8 without control characters. An
// ADDRESS is in the spelling of inet_ntop(3), IPv4 or IPv6, without a zone; a
// PREFIX is within its family, in decimal.
Json ToJson(const PluginResult& result);

// What an orchestrator makes of a result, by Nomad's rules
// (AllocNetworkStatus).
struct NetworkStatus {
  std::string interface;
  // Without prefix; the IPv6 address where there is no IPv4 one.
  std::string address;
  std::string address6;
};

// The interfaces sorted by name; the first with an address that is in a
// sandbox, else the first with an address. An address that names no interface
// is `ifname`'s. FailedPrecondition if no interface has an address.
Result<NetworkStatus> StatusOf(const PluginResult& result,
                               const std::string& ifname);

}  // namespace mountd::cni
