// SPDX-License-Identifier: LGPL-2.1-or-later
// An accepted configuration is within the bounds that both mountd and the
// executors rely on without another check.
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/names.h"
#include "mountd/base/paths.h"
#include "mountd/config/config.h"
#include "mountd/config/config_filesystem.h"
#include "mountd/config/config_plugin.h"
#include "tests/fuzz/fuzz_input.h"

namespace mountd::fuzz {
namespace {

void RequirePath(const std::string& path) {
  Require(paths::IsNormalised(path) && path.size() < 4096 &&
              path.find('\0') == std::string::npos,
          "a path cannot be opened part by part");
}

void RequirePaths(const std::vector<std::string>& all) {
  for (const std::string& path : all) {
    RequirePath(path);
  }
}

void RequireName(std::string_view name) {
  Require(IsValidName(name), "a name is none");
}

// Requires names between `prefix` and `suffix`, or "*".
void RequireGranted(const std::vector<std::string>& all,
                    std::string_view prefix, std::string_view suffix) {
  for (std::string_view name : all) {
    if (name.starts_with(prefix)) {
      name.remove_prefix(prefix.size());
    }
    if (name.ends_with(suffix)) {
      name.remove_suffix(suffix.size());
    }
    Require(name == "*" || IsValidName(name), "a rule grants no name");
  }
}

void RequireIds(const std::vector<std::uint32_t>& ids) {
  for (const std::uint32_t id : ids) {
    Require(id != exec::kNoId, "an id is nobody's");
  }
}

void CheckRule(const RuleConfig& rule) {
  Require(!rule.uids.empty() || !rule.gids.empty(), "a rule is nobody's");
  RequireIds(rule.uids);
  RequireIds(rule.gids);
  RequireGranted(rule.host_volumes, "", ":ro");
  RequireGranted(rule.filesystems, "", ":ro");
  RequireGranted(rule.plugins, "", "");
  RequireGranted(rule.register_plugins, "", "");
  RequireGranted(rule.control_plugins, "", "");
  RequireGranted(rule.networks, kCniPrefix, "");
  RequirePaths(rule.alloc_roots);
  RequirePaths(rule.cgroups);
  for (const PortRange& ports : rule.host_ports) {
    Require(ports.first >= 1 && ports.first <= ports.last, "no range of ports");
  }
  for (const IdRange& ids : rule.ids) {
    Require(ids.first >= 1 && ids.first <= ids.last && ids.last != exec::kNoId,
            "a rule grants root's files, or nobody's");
  }
}

void CheckFilesystem(const FilesystemConfig& filesystem) {
  Require(FaultOfType(filesystem.type).empty() &&
              FaultOfSource(filesystem.type, filesystem.source).empty(),
          "a file system that may not be declared");
  std::size_t bytes = 0;
  for (const std::string& option : filesystem.options) {
    Require(FaultOfOption(filesystem.type, option).empty() &&
                option.find(',') == std::string::npos &&
                option.find('\0') == std::string::npos,
            "an option that mount(8) reads as another");
    bytes += option.size() + 1;
  }
  Require(bytes <= 2048, "more options than a marker holds");
  RequireIds(filesystem.uids);
}

void CheckPlugin(const std::string& name, const PluginConfig& plugin) {
  Require(FaultOfPluginName(name).empty(), "a plugin's name is no unit's");
  Require(!plugin.command.empty() && plugin.command.size() <= 64,
          "a plugin's command is none");
  RequirePath(plugin.command.front());
  for (const std::string& argument : plugin.command) {
    Require(argument.find_first_of(std::string_view("\0\n", 2)) ==
                std::string::npos,
            "an argument ends a unit's line");
  }
}

template <typename Range>
void CheckRanges(const std::vector<Range>& ranges) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    for (std::size_t j = i + 1; j < ranges.size(); ++j) {
      Require(!Overlap(ranges[i], ranges[j]), "an address is in two ranges");
    }
  }
}

void CheckNetworks(const std::map<std::string, NetworkConfig>& networks) {
  std::vector<netns::Ipv4Range> ipv4;
  std::vector<netns::Ipv6Range> ipv6;
  for (const auto& [name, network] : networks) {
    RequireName(name);
    Require(!network.ipv4.empty(), "a network has no addresses");
    Require(network.mtu == 0 || (network.mtu >= 1280 && network.mtu <= 65535),
            "an MTU is out of bounds");
    ipv4.insert(ipv4.end(), network.ipv4.begin(), network.ipv4.end());
    ipv6.insert(ipv6.end(), network.ipv6.begin(), network.ipv6.end());
  }
  CheckRanges(ipv4);
  CheckRanges(ipv6);
}

void CheckNumbers(const Config& config) {
  const LimitsConfig& limits = config.limits;
  Require(limits.peers_per_uid >= 1 && limits.peers_per_uid <= 4096 &&
              limits.operations_per_uid >= 1 &&
              limits.operations_per_uid <= 4096 &&
              limits.rpcs_per_plugin >= 1 && limits.rpcs_per_plugin <= 1000 &&
              limits.mount_executors >= 1 && limits.mount_executors <= 64 &&
              limits.mounts_per_allocation >= 1 &&
              limits.tmpfs_bytes <= std::uint64_t{1} << 50U,
          "a limit is out of bounds");
  const TimeoutsConfig& timeouts = config.timeouts;
  for (const std::chrono::milliseconds timeout :
       {timeouts.plan, timeouts.rpc, timeouts.rpc_retries, timeouts.patience,
        timeouts.probe_starting, timeouts.probe_ready, timeouts.plugin_health,
        timeouts.probe_timeout, timeouts.probe_mounts, timeouts.probe_volumes,
        timeouts.probe_answer, timeouts.cni}) {
    Require(timeout.count() >= 1 && timeout.count() <= 3'600'000,
            "a time is out of bounds");
  }
}

void Check(const Config& config) {
  for (const auto& [name, volume] : config.host_volumes) {
    RequireName(name);
    RequirePath(volume.path);
    RequireIds(volume.uids);
  }
  for (const auto& [name, filesystem] : config.filesystems) {
    RequireName(name);
    CheckFilesystem(filesystem);
  }
  for (const auto& [name, plugin] : config.plugins) {
    RequireName(name);
    CheckPlugin(name, plugin);
  }
  CheckNetworks(config.networks);
  for (const RuleConfig& rule : config.rules) {
    CheckRule(rule);
  }
  RequirePaths(config.cni.config_dirs);
  RequirePaths(config.cni.plugin_dirs);
  CheckNumbers(config);
}

}  // namespace
}  // namespace mountd::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const auto config =
      mountd::ParseConfig(mountd::fuzz::TextOf(data, size), "mountd.toml");
  if (config) {
    mountd::fuzz::Check(*config);
  } else {
    mountd::fuzz::Require(!config.error().Message().empty(),
                          "an error says nothing");
  }
  return 0;
}
