// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "netns/cni/documents/addresses.h"
#include "netns/cni/documents/json.h"

namespace mountd::cni {

inline constexpr std::size_t kMaxResultInterfaces = 64;
inline constexpr std::size_t kMaxResultIps = 64;
inline constexpr std::size_t kMaxResultRoutes = 256;
// Bounds for each of the lists of dns.
inline constexpr std::size_t kMaxResultTexts = 32;
inline constexpr std::size_t kMaxResultTextBytes = 255;
// Bounds the whole answer to an ADD.
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
  // The interface's index; nothing if the plugin did not say.
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

// The answer to an ADD (CNI 1.1, section 5), checked: counts and sizes are
// bounded, addresses are addresses, indices point at interfaces, and texts are
// UTF-8 without control characters. The families of addresses and the forms of
// texts are not checked. So a MAC address, an interface's name and a name
// server's address may be any text.
struct PluginResult {
  std::string version;
  std::vector<ResultInterface> interfaces;
  std::vector<ResultIp> ips;
  std::vector<ResultRoute> routes;
  ResultDns dns;
};

// Reads an answer. InvalidArgument if a member is wrong, which the error names,
// or if the result is not of `version`. Ignores unknown members, because the
// next plugin may know them.
Result<PluginResult> ReadPluginResult(const Json& answer,
                                      const std::string& version);

// Returns the result in the form of 1.0.0 and later, whatever version the
// plugins spoke: the member "result" of the answer to an ADD. Other programs
// parse exactly this form. All members are always there, except the two that
// say otherwise:
//
//   cniVersion  string: the version that the plugins spoke
//   interfaces  array, at most 64:
//     name      text of 1 to 255 bytes
//     mac       text
//     sandbox   text; "" on the host
//     mtu       number, 1 to 2^32-1; absent if no plugin gave it
//   ips         array, at most 64:
//     address   "ADDRESS/PREFIX"
//     gateway   "ADDRESS", or ""
//     interface number, an index into interfaces; absent if no plugin gave it
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

// The status that an orchestrator derives from a result, by Nomad's rules
// (AllocNetworkStatus).
struct NetworkStatus {
  std::string interface;
  // Without prefix; the IPv6 address if there is no IPv4 address.
  std::string address;
  std::string address6;
};

// Sorts the interfaces by name. Returns the first one in a sandbox that has an
// address, else the first one that has an address. An address without an
// interface belongs to `ifname`. FailedPrecondition if no interface has an
// address.
Result<NetworkStatus> StatusOf(const PluginResult& result,
                               const std::string& ifname);

}  // namespace mountd::cni
