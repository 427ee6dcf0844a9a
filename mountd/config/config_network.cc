// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/config/config_network.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace mountd {
namespace {

template <typename Range>
bool AnyOverlap(const std::vector<Range>& some,
                const std::vector<Range>& others) {
  return std::any_of(some.begin(), some.end(), [&](const Range& one) {
    return std::any_of(others.begin(), others.end(),
                       [&](const Range& other) { return Overlap(one, other); });
  });
}

// Reads a range, or an array of ranges.
template <typename Range>
Result<void> ReadRanges(const ConfigReader& reader, const toml::table& table,
                        const char* key, const std::string& where,
                        Result<Range> (*parse)(std::string_view),
                        std::vector<Range>& out) {
  const auto add = [&](const std::string& text,
                       const toml::node& node) -> Result<void> {
    const Result<Range> range = parse(text);
    if (!range) {
      return reader.At(node, where + key, range.error().detail);
    }
    if (AnyOverlap(out, {*range})) {
      return reader.At(node, where + key, "overlaps another range");
    }
    out.push_back(*range);
    return Ok();
  };
  const toml::node* node = table.get(key);
  if (node != nullptr && node->is_string()) {
    return add(*node->value_exact<std::string>(), *node);
  }
  return reader.Strings(table, key, where, add);
}

Result<void> ReadDirectories(const ConfigReader& reader,
                             const toml::table& table, const char* key,
                             const std::string& where,
                             std::vector<std::string> usual,
                             std::vector<std::string>& out) {
  if (!table.contains(key)) {
    out = std::move(usual);
    return Ok();
  }
  MOUNTD_TRY(reader.Strings(
      table, key, where,
      [&](const std::string& text, const toml::node& node) -> Result<void> {
        if (!IsNormalisedPath(text)) {
          return reader.At(node, where + key, kNormalised);
        }
        out.push_back(text);
        return Ok();
      }));
  return out.empty() ? Result<void>(reader.At(table, where + key,
                                              "must name at least one"))
                     : Ok();
}

}  // namespace

Result<NetworkConfig> ReadNetwork(const ConfigReader& reader,
                                  const toml::table& table,
                                  const std::string& where) {
  MOUNTD_TRY(
      reader.OnlyKeys(table, where, {"ipv4", "ipv6", "mtu", "no_masquerade"}));
  NetworkConfig network;
  MOUNTD_TRY(reader.Number(table, "mtu", where, 1280, 65535, network.mtu));
  MOUNTD_TRY(ReadRanges(reader, table, "ipv4", where, netns::ParseIpv4Range,
                        network.ipv4));
  MOUNTD_TRY(ReadRanges(reader, table, "ipv6", where, netns::ParseIpv6Range,
                        network.ipv6));
  if (network.ipv4.empty() && network.ipv6.empty()) {
    return reader.At(table, where + "ipv4",
                     "must name a range of addresses, or ipv6 must");
  }
  MOUNTD_TRY(reader.Strings(
      table, "no_masquerade", where,
      [&](const std::string& text, const toml::node& node) -> Result<void> {
        if (const auto ipv4 = netns::ParseIpv4Range(text)) {
          network.no_masquerade4.push_back(*ipv4);
          return Ok();
        }
        const auto ipv6 = netns::ParseIpv6Range(text);
        if (!ipv6) {
          return reader.At(node, where + "no_masquerade", ipv6.error().detail);
        }
        network.no_masquerade6.push_back(*ipv6);
        return Ok();
      }));
  return network;
}

Result<void> ReadCni(const ConfigReader& reader, const toml::table& table,
                     CniConfig& cni) {
  const std::string where = "cni.";
  MOUNTD_TRY(reader.OnlyKeys(table, where, {"config_dirs", "plugin_dirs"}));
  MOUNTD_TRY(ReadDirectories(reader, table, "config_dirs", where,
                             {"/opt/cni/config"}, cni.config_dirs));
  return ReadDirectories(reader, table, "plugin_dirs", where,
                         {"/opt/cni/bin", "/usr/libexec/cni", "/usr/lib/cni"},
                         cni.plugin_dirs);
}

Result<void> ReadFirewall(const ConfigReader& reader, const toml::table& table,
                          FirewallConfig& firewall) {
  const std::string where = "firewall.";
  MOUNTD_TRY(reader.OnlyKeys(table, where, {"forward_rules"}));
  return reader.Scalar(table, "forward_rules", where, firewall.forward_rules);
}

Result<void> CheckNetworksAreApart(const ConfigReader& reader,
                                   const toml::table& root,
                                   const Config& config) {
  for (auto one = config.networks.begin(); one != config.networks.end();
       ++one) {
    for (auto other = std::next(one); other != config.networks.end(); ++other) {
      if (AnyOverlap(one->second.ipv4, other->second.ipv4) ||
          AnyOverlap(one->second.ipv6, other->second.ipv6)) {
        return reader.At(root, "network." + other->first,
                         "overlaps the addresses of network." + one->first);
      }
    }
  }
  return Ok();
}

}  // namespace mountd
