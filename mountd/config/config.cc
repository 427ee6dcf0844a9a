// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/config/config.h"

#include <toml++/toml.h>

#include <algorithm>
#include <initializer_list>

#include "mountd/base/accounts.h"
#include "mountd/base/names.h"
#include "mountd/base/paths.h"
#include "mountd/config/config_file.h"
#include "mountd/config/config_filesystem.h"
#include "mountd/config/config_network.h"
#include "mountd/config/config_plugin.h"
#include "mountd/config/config_reader.h"
#include "mountd/config/config_rule.h"

namespace mountd {
namespace {

Result<exec::Propagation> ParsePropagation(const std::string& text) {
  if (text == "private") {
    return exec::Propagation::kPrivate;
  }
  if (text == "host-to-task") {
    return exec::Propagation::kHostToTask;
  }
  if (text == "bidirectional") {
    return exec::Propagation::kBidirectional;
  }
  return MakeError(Code::kInvalidArgument, "config", text,
                   "must be private, host-to-task or bidirectional");
}

// Reads the owners. If the key is absent, rules alone decide who may use the
// volume or file system.
Result<void> ReadOwners(const ConfigReader& reader, const toml::table& table,
                        const std::string& where,
                        std::vector<std::uint32_t>& uids) {
  MOUNTD_TRY(ReadAccounts(reader, table, "users", where, FindUser, uids));
  return table.contains("users") && uids.empty()
             ? Result<void>(reader.At(*table.get("users"), where + "users",
                                      "must name at least one user"))
             : Ok();
}

// Reads the keys that host volumes and file systems share.
template <typename T>
Result<void> ReadShared(const ConfigReader& reader, const toml::table& table,
                        const std::string& where, T& shared) {
  MOUNTD_TRY(reader.Scalar(table, "read_only", where, shared.read_only));
  MOUNTD_TRY(ReadOwners(reader, table, where, shared.uids));
  if (table.contains("propagation")) {
    shared.propagation.clear();
  }
  return reader.Strings(
      table, "propagation", where,
      [&](const std::string& text, const toml::node& node) -> Result<void> {
        Result<exec::Propagation> mode = ParsePropagation(text);
        if (!mode) {
          return reader.At(node, where + "propagation",
                           "\"" + text + "\" " + mode.error().detail);
        }
        shared.propagation.push_back(*mode);
        return Ok();
      });
}

// Returns the key's node, or the table if the key is absent. An error names the
// line of that node.
const toml::node& NodeOf(const toml::table& table, std::string_view key) {
  const toml::node* node = table.get(key);
  return node != nullptr ? *node : table;
}

Result<HostVolumeConfig> ReadHostVolume(const ConfigReader& reader,
                                        const toml::table& table,
                                        const std::string& where) {
  MOUNTD_TRY(reader.OnlyKeys(table, where,
                             {"path", "read_only", "propagation", "users"}));
  HostVolumeConfig volume;
  MOUNTD_TRY(reader.Scalar(table, "path", where, volume.path));
  if (!IsNormalisedPath(volume.path)) {
    return reader.At(NodeOf(table, "path"), where + "path", kNormalised);
  }
  MOUNTD_TRY(ReadShared(reader, table, where, volume));
  return volume;
}

// The marker of a mounted file system holds all options
// (propagation/filesystem.h).
constexpr std::size_t kMaxOptionBytes = 2048;

Result<FilesystemConfig> ReadFilesystem(const ConfigReader& reader,
                                        const toml::table& table,
                                        const std::string& where) {
  MOUNTD_TRY(reader.OnlyKeys(
      table, where,
      {"type", "source", "options", "read_only", "propagation", "users"}));
  FilesystemConfig filesystem;
  MOUNTD_TRY(reader.Scalar(table, "type", where, filesystem.type));
  MOUNTD_TRY(reader.Scalar(table, "source", where, filesystem.source));
  if (const std::string why = FaultOfType(filesystem.type); !why.empty()) {
    return reader.At(NodeOf(table, "type"), where + "type", why);
  }
  if (const std::string why = FaultOfSource(filesystem.type, filesystem.source);
      !why.empty()) {
    return reader.At(NodeOf(table, "source"), where + "source", why);
  }
  std::size_t bytes = 0;
  MOUNTD_TRY(reader.Strings(
      table, "options", where,
      [&](const std::string& text, const toml::node& node) -> Result<void> {
        std::string why = FaultOfOption(filesystem.type, text);
        bytes += text.size() + 1;
        if (why.empty() && bytes > kMaxOptionBytes) {
          why = "is too large";
        }
        if (!why.empty()) {
          return reader.At(node, where + "options", "\"" + text + "\" " + why);
        }
        filesystem.options.push_back(text);
        return Ok();
      }));
  MOUNTD_TRY(ReadShared(reader, table, where, filesystem));
  return filesystem;
}

Result<void> ReadLimits(const ConfigReader& reader, const toml::table& table,
                        LimitsConfig& limits) {
  const std::string where = "limits.";
  MOUNTD_TRY(reader.OnlyKeys(
      table, where,
      {"peers_per_uid", "allocations_per_uid", "operations_per_uid",
       "plugins_per_uid", "rpcs_per_plugin", "mounts_per_uid",
       "mounts_per_allocation", "mounts_per_plugin", "inboxes_per_allocation",
       "propagated_directories_per_uid", "leases_per_uid", "tmpfs_bytes",
       "tmpfs_bytes_per_allocation", "network_file_bytes_per_uid",
       "namespaces_per_uid", "mount_executors", "mount_reserve"}));
  MOUNTD_TRY(reader.Number(table, "peers_per_uid", where, 1, 4096,
                           limits.peers_per_uid));
  MOUNTD_TRY(reader.Number(table, "allocations_per_uid", where, 1, 1'000'000,
                           limits.allocations_per_uid));
  MOUNTD_TRY(reader.Number(table, "operations_per_uid", where, 1, 4096,
                           limits.operations_per_uid));
  MOUNTD_TRY(reader.Number(table, "plugins_per_uid", where, 1, 4096,
                           limits.plugins_per_uid));
  MOUNTD_TRY(reader.Number(table, "rpcs_per_plugin", where, 1, 1000,
                           limits.rpcs_per_plugin));
  MOUNTD_TRY(reader.Number(table, "mounts_per_uid", where, 1, 1'000'000,
                           limits.mounts_per_uid));
  MOUNTD_TRY(reader.Number(table, "inboxes_per_allocation", where, 1, 1'000,
                           limits.inboxes_per_allocation));
  MOUNTD_TRY(reader.Number(table, "propagated_directories_per_uid", where, 0,
                           1'000'000, limits.propagated_directories_per_uid));
  MOUNTD_TRY(reader.Number(table, "leases_per_uid", where, 1, 1'000'000,
                           limits.leases_per_uid));
  MOUNTD_TRY(reader.Number(table, "mounts_per_plugin", where, 1, 1'000'000,
                           limits.mounts_per_plugin));
  MOUNTD_TRY(reader.Number(table, "mounts_per_allocation", where, 1, 100'000,
                           limits.mounts_per_allocation));
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 50U;
  MOUNTD_TRY(reader.Number(table, "tmpfs_bytes", where, 0, kMostBytes,
                           limits.tmpfs_bytes));
  MOUNTD_TRY(reader.Number(table, "tmpfs_bytes_per_allocation", where, 0,
                           kMostBytes, limits.tmpfs_bytes_per_allocation));
  MOUNTD_TRY(reader.Number(table, "network_file_bytes_per_uid", where, 0,
                           kMostBytes, limits.network_file_bytes_per_uid));
  MOUNTD_TRY(reader.Number(table, "namespaces_per_uid", where, 0, 1'000'000,
                           limits.namespaces_per_uid));
  MOUNTD_TRY(reader.Number(table, "mount_executors", where, 1, 64,
                           limits.mount_executors));
  return reader.Number(table, "mount_reserve", where, 0, 1'000'000,
                       limits.mount_reserve);
}

Result<void> ReadTimeouts(const ConfigReader& reader, const toml::table& table,
                          TimeoutsConfig& timeouts) {
  const std::string where = "timeouts.";
  const std::initializer_list<
      std::pair<std::string_view, std::chrono::milliseconds*>>
      fields = {{"plan_ms", &timeouts.plan},
                {"rpc_ms", &timeouts.rpc},
                {"rpc_retries_ms", &timeouts.rpc_retries},
                {"patience_ms", &timeouts.patience},
                {"probe_starting_ms", &timeouts.probe_starting},
                {"probe_ready_ms", &timeouts.probe_ready},
                {"plugin_health_ms", &timeouts.plugin_health},
                {"probe_timeout_ms", &timeouts.probe_timeout},
                {"probe_mounts_ms", &timeouts.probe_mounts},
                {"probe_volumes_ms", &timeouts.probe_volumes},
                {"probe_answer_ms", &timeouts.probe_answer},
                {"cni_ms", &timeouts.cni},
                {"lease_grace_ms", &timeouts.lease_grace},
                {"owed_warning_ms", &timeouts.owed_warning}};
  MOUNTD_TRY(reader.OnlyKeys(
      table, where,
      {"plan_ms", "rpc_ms", "rpc_retries_ms", "patience_ms",
       "probe_starting_ms", "probe_ready_ms", "plugin_health_ms",
       "probe_timeout_ms", "probe_mounts_ms", "probe_volumes_ms",
       "probe_answer_ms", "cni_ms", "lease_grace_ms", "owed_warning_ms"}));
  for (const auto& [name, out] : fields) {
    MOUNTD_TRY(reader.Number(table, name, where, 1, 3'600'000, *out));
  }
  return Ok();
}

Result<void> ReadMounts(const ConfigReader& reader, const toml::table& table,
                        MountsConfig& mounts) {
  const std::string where = "mounts.";
  MOUNTD_TRY(reader.OnlyKeys(table, where, {"namespace"}));
  std::string name = "host";
  MOUNTD_TRY(reader.Scalar(table, "namespace", where, name));
  if (name != "host" && name != "own") {
    return reader.At(NodeOf(table, "namespace"), where + "namespace",
                     "must be host or own");
  }
  mounts.own_namespace = name == "own";
  return Ok();
}

// Reads the [<section>.<name>] tables by `read`.
template <typename T, typename F>
Result<void> ReadNamed(const ConfigReader& reader, const toml::table& root,
                       const std::string& section,
                       std::map<std::string, T>& out, F read) {
  const toml::node* node = root.get(section);
  if (node == nullptr) {
    return Ok();
  }
  MOUNTD_ASSIGN(const toml::table* tables, reader.Table(*node, section));
  for (const auto& [key, value] : *tables) {
    const std::string name(key.str());
    std::string where = section;
    where.append(".").append(name);
    if (!IsValidName(name)) {
      return reader.At(value, section, "\"" + name + "\" is not a valid name");
    }
    MOUNTD_ASSIGN(const toml::table* table, reader.Table(value, where));
    const std::string keys = where + ".";
    MOUNTD_ASSIGN(T read_value, read(reader, *table, keys));
    out.emplace(name, std::move(read_value));
  }
  return Ok();
}

Result<Config> ReadRoot(const ConfigReader& reader, const toml::table& root) {
  MOUNTD_TRY(
      reader.OnlyKeys(root, "",
                      {"host_volume", "filesystem", "plugin", "network", "cni",
                       "firewall", "mounts", "rule", "limits", "timeouts"}));
  Config config;
  MOUNTD_TRY(ReadNamed(reader, root, "host_volume", config.host_volumes,
                       ReadHostVolume));
  MOUNTD_TRY(ReadNamed(reader, root, "filesystem", config.filesystems,
                       ReadFilesystem));
  MOUNTD_TRY(ReadNamed(reader, root, "plugin", config.plugins, ReadPlugin));
  // A plugin's name becomes a unit's name and a part of its socket's path.
  for (const auto& [name, plugin] : config.plugins) {
    if (const std::string why = FaultOfPluginName(name); !why.empty()) {
      return reader.At(*root.get("plugin"), "plugin." + name, why);
    }
  }
  MOUNTD_TRY(ReadNamed(reader, root, "network", config.networks, ReadNetwork));
  MOUNTD_TRY(CheckNetworksAreApart(reader, root, config));
  if (const toml::node* node = root.get("cni")) {
    MOUNTD_ASSIGN(const toml::table* table, reader.Table(*node, "cni"));
    MOUNTD_TRY(ReadCni(reader, *table, config.cni));
  }
  if (const toml::node* node = root.get("firewall")) {
    MOUNTD_ASSIGN(const toml::table* table, reader.Table(*node, "firewall"));
    MOUNTD_TRY(ReadFirewall(reader, *table, config.firewall));
  }
  if (const toml::node* node = root.get("mounts")) {
    MOUNTD_ASSIGN(const toml::table* table, reader.Table(*node, "mounts"));
    MOUNTD_TRY(ReadMounts(reader, *table, config.mounts));
  }
  MOUNTD_TRY(ReadRules(reader, root, config.rules));
  if (const toml::node* node = root.get("limits")) {
    MOUNTD_ASSIGN(const toml::table* table, reader.Table(*node, "limits"));
    MOUNTD_TRY(ReadLimits(reader, *table, config.limits));
  }
  if (const toml::node* node = root.get("timeouts")) {
    MOUNTD_ASSIGN(const toml::table* table, reader.Table(*node, "timeouts"));
    MOUNTD_TRY(ReadTimeouts(reader, *table, config.timeouts));
  }
  return config;
}

}  // namespace

bool Contains(const std::vector<IdRange>& ranges, std::uint32_t id) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const IdRange& range) {
    return id >= range.first && id <= range.last;
  });
}

bool AllowsContainer(const RuleConfig& rule, std::string_view cgroup,
                     bool tmpfs) {
  return rule.containers && (!tmpfs || rule.container_tmpfs) &&
         AllowsCgroup(rule, cgroup);
}

bool AllowsStop(const RuleConfig& rule, std::string_view cgroup,
                exec::TaskStop how) {
  return rule.stop_tasks >= how && AllowsCgroup(rule, cgroup);
}

bool AllowsCgroup(const RuleConfig& rule, std::string_view path) {
  return std::any_of(
      rule.cgroups.begin(), rule.cgroups.end(),
      [&](const std::string& top) { return paths::IsAtOrBelow(path, top); });
}

bool Lists(const std::vector<std::string>& names, std::string_view name) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& item) {
    return item == "*" || item == name;
  });
}

bool ListsWithAccess(const std::vector<std::string>& entries,
                     std::string_view name, bool read_only) {
  return Lists(entries, name) ||
         (read_only && (Lists(entries, std::string(name) + ":ro") ||
                        Lists(entries, "*:ro")));
}

bool Applies(const RuleConfig& rule, std::uint32_t uid,
             std::span<const std::uint32_t> gids) {
  const auto has = [](const std::vector<std::uint32_t>& ids, std::uint32_t id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  return has(rule.uids, uid) ||
         std::any_of(gids.begin(), gids.end(),
                     [&](std::uint32_t gid) { return has(rule.gids, gid); });
}

bool GrantsPorts(const RuleConfig& rule, std::uint16_t first,
                 std::uint16_t count) {
  const std::uint32_t last = first + std::uint32_t{count} - 1;
  return std::any_of(rule.host_ports.begin(), rule.host_ports.end(),
                     [&](const PortRange& range) {
                       return first >= range.first && last <= range.last;
                     });
}

bool GrantsCniNetwork(const RuleConfig& rule, std::string_view network) {
  return std::any_of(rule.networks.begin(), rule.networks.end(),
                     [&](std::string_view granted) {
                       if (!granted.starts_with(kCniPrefix)) {
                         return false;
                       }
                       granted.remove_prefix(kCniPrefix.size());
                       return granted == "*" || granted == network;
                     });
}

bool AllowsIds(const RuleConfig& rule, const exec::IdExtent& extent) {
  return std::any_of(rule.ids.begin(), rule.ids.end(),
                     [&](const IdRange& range) {
                       return extent.on_disk >= range.first &&
                              std::uint64_t{extent.on_disk} + extent.count <=
                                  std::uint64_t{range.last} + 1;
                     });
}

Result<Config> ParseConfig(std::string_view text, std::string_view origin) {
  try {
    const toml::table root = toml::parse(text, origin);
    return ReadRoot(ConfigReader(origin), root);
  } catch (const toml::parse_error& error) {
    return MakeError(
        Code::kInvalidArgument, "config",
        std::string(origin) + ":" + std::to_string(error.source().begin.line),
        std::string(error.description()));
  }
}

Result<Config> LoadConfig(const std::string& path, bool require_root_owned) {
  MOUNTD_ASSIGN(const std::string text,
                ReadConfigFile(path, require_root_owned));
  return ParseConfig(text, path);
}

}  // namespace mountd
