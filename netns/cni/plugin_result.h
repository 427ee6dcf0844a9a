// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "netns/cni/addresses.h"
#include "netns/cni/json.h"

namespace mountd::cni {

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
// UTF-8 without control characters.
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

// In the form of 1.0.0 and later, whatever version the plugins spoke.
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
