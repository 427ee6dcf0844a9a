// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/config.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <initializer_list>
#include <optional>

#include "mountd/base/accounts.h"
#include "mountd/base/names.h"
#include "mountd/base/number.h"
#include "mountd/base/paths.h"
#include "mountd/base/unique_fd.h"
#include "mountd/config_filesystem.h"

namespace mountd {
namespace {

constexpr std::size_t kMaxConfigBytes = 1U << 20U;

// Walks the parsed table; the first problem wins and names its line.
class Reader {
 public:
  explicit Reader(std::string_view origin) : origin_(origin) {}

  Error At(const toml::node& node, const std::string& key,
           const std::string& why) const {
    return MakeError(
        Code::kInvalidArgument, "config",
        std::string(origin_) + ":" + std::to_string(node.source().begin.line),
        key + ": " + why);
  }

  // Unknown keys are errors: a misspelt restriction must not be silently none.
  Result<void> OnlyKeys(const toml::table& table, const std::string& where,
                        std::initializer_list<std::string_view> known) const {
    for (const auto& [key, node] : table) {
      if (std::find(known.begin(), known.end(), key.str()) == known.end()) {
        return At(node, where + std::string(key.str()), "unknown key");
      }
    }
    return Ok();
  }

  Result<const toml::table*> Table(const toml::node& node,
                                   const std::string& key) const {
    if (!node.is_table()) {
      return At(node, key, "must be a table");
    }
    return node.as_table();
  }

  // Leaves `out` alone if the key is absent.
  template <typename T>
  Result<void> Scalar(const toml::table& table, std::string_view name,
                      const std::string& where, T& out) const {
    const toml::node* node = table.get(name);
    if (node == nullptr) {
      return Ok();
    }
    const auto value = node->value_exact<T>();
    if (!value) {
      return At(*node, where + std::string(name), "has the wrong type");
    }
    out = *value;
    return Ok();
  }

  template <typename T>
  Result<void> Number(const toml::table& table, std::string_view name,
                      const std::string& where, std::int64_t min,
                      std::int64_t max, T& out) const {
    const toml::node* node = table.get(name);
    if (node == nullptr) {
      return Ok();
    }
    const auto value = node->value_exact<std::int64_t>();
    if (!value || *value < min || *value > max) {
      return At(*node, where + std::string(name),
                "must be a whole number from " + std::to_string(min) + " to " +
                    std::to_string(max));
    }
    out = T(*value);
    return Ok();
  }

  // `each(text, node)` for every string of the array.
  template <typename F>
  Result<void> Strings(const toml::table& table, std::string_view name,
                       const std::string& where, F each) const {
    const toml::node* node = table.get(name);
    if (node == nullptr) {
      return Ok();
    }
    const std::string key = where + std::string(name);
    if (!node->is_array()) {
      return At(*node, key, "must be an array of strings");
    }
    for (const toml::node& element : *node->as_array()) {
      const auto text = element.value_exact<std::string>();
      if (!text) {
        return At(element, key, "must be an array of strings");
      }
      MOUNTD_TRY(each(*text, element));
    }
    return Ok();
  }

  Result<void> Names(const toml::table& table, std::string_view name,
                     const std::string& where,
                     std::vector<std::string>& out) const {
    return Strings(
        table, name, where,
        [&](const std::string& text, const toml::node& node) -> Result<void> {
          if (text != "*" && !IsValidName(text)) {
            return At(node, where + std::string(name),
                      "\"" + text + "\" is not a name");
          }
          out.push_back(text);
          return Ok();
        });
  }

 private:
  std::string_view origin_;
};

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
                   "is none of private, host-to-task, bidirectional");
}

// Absolute, no empty, "." or ".." component, no trailing slash: what the
// executor can open component by component.
bool IsNormalisedPath(const std::string& path) {
  if (path.size() < 2 || path.front() != '/' || path.size() >= 4096 ||
      path.find('\0') != std::string::npos) {
    return false;
  }
  for (std::size_t at = 1; at <= path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string part = path.substr(at, end - at);
    if (part.empty() || part == "." || part == "..") {
      return false;
    }
    at = end + 1;
  }
  return true;
}

constexpr char kNormalised[] =
    "must be an absolute path without ., .. or a trailing /";

// Names or numbers of users (or groups, by `lookup`).
template <typename Lookup>
Result<void> ReadAccounts(const Reader& reader, const toml::table& table,
                          std::string_view key, const std::string& where,
                          Lookup lookup, std::vector<std::uint32_t>& out) {
  return reader.Strings(
      table, key, where,
      [&](const std::string& name, const toml::node& node) -> Result<void> {
        Result<std::uint32_t> id = lookup(name);
        if (!id) {
          return reader.At(node, where + std::string(key),
                           "\"" + name + "\": " + id.error().detail);
        }
        out.push_back(*id);
        return Ok();
      });
}

// Absent: everybody whom a rule allows.
Result<void> ReadOwners(const Reader& reader, const toml::table& table,
                        const std::string& where,
                        std::vector<std::uint32_t>& uids) {
  MOUNTD_TRY(ReadAccounts(reader, table, "users", where, FindUser, uids));
  return table.contains("users") && uids.empty()
             ? Result<void>(reader.At(*table.get("users"), where + "users",
                                      "must name at least one user"))
             : Ok();
}

// What host volumes and file systems have alike.
template <typename T>
Result<void> ReadShared(const Reader& reader, const toml::table& table,
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

// The key's node, or the table's if it is absent.
const toml::node& NodeOf(const toml::table& table, std::string_view key) {
  const toml::node* node = table.get(key);
  return node != nullptr ? *node : table;
}

Result<HostVolumeConfig> ReadHostVolume(const Reader& reader,
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

// The marker of a mounted one has them all (propagation/filesystem.h).
constexpr std::size_t kMaxOptionBytes = 2048;

Result<FilesystemConfig> ReadFilesystem(const Reader& reader,
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
          why = "is too much";
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

Result<NetworkConfig> ReadNetwork(const Reader& reader,
                                  const toml::table& table,
                                  const std::string& where) {
  MOUNTD_TRY(reader.OnlyKeys(table, where, {"ipv4", "ipv6", "mtu"}));
  NetworkConfig network;
  std::string ipv4;
  std::string ipv6;
  MOUNTD_TRY(reader.Scalar(table, "ipv4", where, ipv4));
  MOUNTD_TRY(reader.Scalar(table, "ipv6", where, ipv6));
  MOUNTD_TRY(reader.Number(table, "mtu", where, 1280, 65535, network.mtu));
  Result<netns::Ipv4Range> range4 = netns::ParseIpv4Range(ipv4);
  if (!range4) {
    return reader.At(table, where + "ipv4", range4.error().detail);
  }
  network.ipv4 = *range4;
  if (!ipv6.empty()) {
    Result<netns::Ipv6Range> range6 = netns::ParseIpv6Range(ipv6);
    if (!range6) {
      return reader.At(table, where + "ipv6", range6.error().detail);
    }
    network.ipv6 = *range6;
  }
  return network;
}

// "FIRST-LAST", or one number for both; from 1 on.
std::optional<IdRange> ParseRange(const std::string& text, std::uint32_t most) {
  const std::size_t dash = text.find('-');
  const auto first = ParseNumber<std::uint32_t>(text.substr(0, dash));
  const auto last = dash == std::string::npos
                        ? first
                        : ParseNumber<std::uint32_t>(text.substr(dash + 1));
  if (!first || !last || *first < 1 || *last < *first || *last > most) {
    return std::nullopt;
  }
  return IdRange{*first, *last};
}

Result<PortRange> ParsePortRange(const std::string& text) {
  const std::optional<IdRange> range = ParseRange(text, 65535);
  if (!range) {
    return MakeError(Code::kInvalidArgument, "config", text,
                     "is not a port or a range FIRST-LAST");
  }
  return PortRange{static_cast<std::uint16_t>(range->first),
                   static_cast<std::uint16_t>(range->last)};
}

Result<void> ReadSubjects(const Reader& reader, const toml::table& table,
                          const std::string& where, RuleConfig& rule) {
  MOUNTD_TRY(ReadAccounts(reader, table, "users", where, FindUser, rule.uids));
  MOUNTD_TRY(
      ReadAccounts(reader, table, "groups", where, FindGroup, rule.gids));
  if (rule.uids.empty() && rule.gids.empty()) {
    return reader.At(table, where + "users",
                     "a rule must name at least one user or group");
  }
  return Ok();
}

// "name", "name:ro", "*" or "*:ro".
Result<void> ReadAccess(const Reader& reader, const toml::table& table,
                        std::string_view key, const std::string& where,
                        std::vector<std::string>& out) {
  return reader.Strings(
      table, key, where,
      [&](const std::string& text, const toml::node& node) -> Result<void> {
        const std::string name =
            text.ends_with(":ro") ? text.substr(0, text.size() - 3) : text;
        if (name != "*" && !IsValidName(name)) {
          return reader.At(node, where + std::string(key),
                           "\"" + text + "\" is not NAME or NAME:ro");
        }
        out.push_back(text);
        return Ok();
      });
}

Result<RuleConfig> ReadRule(const Reader& reader, const toml::table& table,
                            const std::string& where) {
  MOUNTD_TRY(reader.OnlyKeys(
      table, where,
      {"users", "groups", "host_volumes", "filesystems", "plugins",
       "register_plugins", "networks", "host_ports", "ids", "alloc_roots",
       "cgroups", "bidirectional", "detached", "containers", "administer"}));
  RuleConfig rule;
  MOUNTD_TRY(ReadSubjects(reader, table, where, rule));
  MOUNTD_TRY(
      ReadAccess(reader, table, "host_volumes", where, rule.host_volumes));
  MOUNTD_TRY(ReadAccess(reader, table, "filesystems", where, rule.filesystems));
  MOUNTD_TRY(reader.Names(table, "plugins", where, rule.plugins));
  MOUNTD_TRY(
      reader.Names(table, "register_plugins", where, rule.register_plugins));
  MOUNTD_TRY(reader.Names(table, "networks", where, rule.networks));
  MOUNTD_TRY(reader.Strings(
      table, "host_ports", where,
      [&](const std::string& text, const toml::node& node) -> Result<void> {
        Result<PortRange> range = ParsePortRange(text);
        if (!range) {
          return reader.At(node, where + "host_ports",
                           "\"" + text + "\" " + range.error().detail);
        }
        rule.host_ports.push_back(*range);
        return Ok();
      }));
  MOUNTD_TRY(reader.Strings(
      table, "alloc_roots", where,
      [&](const std::string& text, const toml::node& node) -> Result<void> {
        if (!IsNormalisedPath(text)) {
          return reader.At(node, where + "alloc_roots", kNormalised);
        }
        rule.alloc_roots.push_back(text);
        return Ok();
      }));
  MOUNTD_TRY(reader.Strings(
      table, "cgroups", where,
      [&](const std::string& text, const toml::node& node) -> Result<void> {
        if (!IsNormalisedPath(text)) {
          return reader.At(node, where + "cgroups",
                           "\"" + text + "\" is not /PATH of a cgroup");
        }
        rule.cgroups.push_back(text);
        return Ok();
      }));
  MOUNTD_TRY(reader.Strings(
      table, "ids", where,
      [&](const std::string& text, const toml::node& node) -> Result<void> {
        // The last one is chown(2)'s "leave it".
        const auto range = ParseRange(text, UINT32_MAX - 1);
        if (!range) {
          return reader.At(
              node, where + "ids",
              "\"" + text + "\" is not an id above 0 or a range FIRST-LAST");
        }
        rule.ids.push_back(*range);
        return Ok();
      }));
  MOUNTD_TRY(reader.Scalar(table, "bidirectional", where, rule.bidirectional));
  MOUNTD_TRY(reader.Scalar(table, "detached", where, rule.detached));
  MOUNTD_TRY(reader.Scalar(table, "containers", where, rule.containers));
  MOUNTD_TRY(reader.Scalar(table, "administer", where, rule.administer));
  return rule;
}

Result<void> ReadLimits(const Reader& reader, const toml::table& table,
                        LimitsConfig& limits) {
  const std::string where = "limits.";
  MOUNTD_TRY(reader.OnlyKeys(
      table, where,
      {"peers_per_uid", "allocations_per_uid", "operations_per_uid",
       "plugins_per_uid", "mounts_per_uid", "mounts_per_allocation",
       "mounts_per_plugin", "inboxes_per_allocation", "tmpfs_bytes",
       "tmpfs_bytes_per_allocation", "mount_executors", "mount_reserve"}));
  MOUNTD_TRY(reader.Number(table, "peers_per_uid", where, 1, 4096,
                           limits.peers_per_uid));
  MOUNTD_TRY(reader.Number(table, "allocations_per_uid", where, 1, 1'000'000,
                           limits.allocations_per_uid));
  MOUNTD_TRY(reader.Number(table, "operations_per_uid", where, 1, 4096,
                           limits.operations_per_uid));
  MOUNTD_TRY(reader.Number(table, "plugins_per_uid", where, 1, 4096,
                           limits.plugins_per_uid));
  MOUNTD_TRY(reader.Number(table, "mounts_per_uid", where, 1, 1'000'000,
                           limits.mounts_per_uid));
  MOUNTD_TRY(reader.Number(table, "inboxes_per_allocation", where, 1, 1'000,
                           limits.inboxes_per_allocation));
  MOUNTD_TRY(reader.Number(table, "mounts_per_plugin", where, 1, 1'000'000,
                           limits.mounts_per_plugin));
  MOUNTD_TRY(reader.Number(table, "mounts_per_allocation", where, 1, 100'000,
                           limits.mounts_per_allocation));
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 50U;
  MOUNTD_TRY(reader.Number(table, "tmpfs_bytes", where, 0, kMostBytes,
                           limits.tmpfs_bytes));
  MOUNTD_TRY(reader.Number(table, "tmpfs_bytes_per_allocation", where, 0,
                           kMostBytes, limits.tmpfs_bytes_per_allocation));
  MOUNTD_TRY(reader.Number(table, "mount_executors", where, 1, 64,
                           limits.mount_executors));
  return reader.Number(table, "mount_reserve", where, 0, 1'000'000,
                       limits.mount_reserve);
}

Result<void> ReadTimeouts(const Reader& reader, const toml::table& table,
                          TimeoutsConfig& timeouts) {
  const std::string where = "timeouts.";
  const std::initializer_list<
      std::pair<std::string_view, std::chrono::milliseconds*>>
      fields = {{"plan_ms", &timeouts.plan},
                {"rpc_ms", &timeouts.rpc},
                {"patience_ms", &timeouts.patience},
                {"probe_starting_ms", &timeouts.probe_starting},
                {"probe_ready_ms", &timeouts.probe_ready},
                {"probe_timeout_ms", &timeouts.probe_timeout},
                {"probe_mounts_ms", &timeouts.probe_mounts},
                {"probe_answer_ms", &timeouts.probe_answer}};
  MOUNTD_TRY(
      reader.OnlyKeys(table, where,
                      {"plan_ms", "rpc_ms", "patience_ms", "probe_starting_ms",
                       "probe_ready_ms", "probe_timeout_ms", "probe_mounts_ms",
                       "probe_answer_ms"}));
  for (const auto& [name, out] : fields) {
    MOUNTD_TRY(reader.Number(table, name, where, 1, 3'600'000, *out));
  }
  return Ok();
}

// [<section>.<name>] tables, each read by `read`.
template <typename T, typename F>
Result<void> ReadNamed(const Reader& reader, const toml::table& root,
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
      return reader.At(value, section, "\"" + name + "\" is not a name");
    }
    MOUNTD_ASSIGN(const toml::table* table, reader.Table(value, where));
    const std::string keys = where + ".";
    MOUNTD_ASSIGN(T read_value, read(reader, *table, keys));
    out.emplace(name, std::move(read_value));
  }
  return Ok();
}

Result<void> ReadRules(const Reader& reader, const toml::table& root,
                       std::vector<RuleConfig>& rules) {
  const toml::node* node = root.get("rule");
  if (node == nullptr) {
    return Ok();
  }
  if (!node->is_array_of_tables()) {
    return reader.At(*node, "rule", "must be [[rule]] tables");
  }
  for (const toml::node& element : *node->as_array()) {
    MOUNTD_ASSIGN(RuleConfig rule,
                  ReadRule(reader, *element.as_table(), "rule."));
    rules.push_back(std::move(rule));
  }
  return Ok();
}

Result<Config> ReadRoot(const Reader& reader, const toml::table& root) {
  MOUNTD_TRY(reader.OnlyKeys(
      root, "",
      {"host_volume", "filesystem", "network", "rule", "limits", "timeouts"}));
  Config config;
  MOUNTD_TRY(ReadNamed(reader, root, "host_volume", config.host_volumes,
                       ReadHostVolume));
  MOUNTD_TRY(ReadNamed(reader, root, "filesystem", config.filesystems,
                       ReadFilesystem));
  MOUNTD_TRY(ReadNamed(reader, root, "network", config.networks, ReadNetwork));
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

Result<std::string> ReadWhole(const std::string& path, int fd) {
  std::string text;
  std::array<char, 16384> buffer{};
  for (;;) {
    const ssize_t size = read(fd, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) {
      continue;
    }
    if (size < 0) {
      return ErrnoError(errno, "read", path);
    }
    if (size == 0) {
      return text;
    }
    text.append(buffer.data(), static_cast<std::size_t>(size));
    if (text.size() > kMaxConfigBytes) {
      return MakeError(Code::kInvalidArgument, "config", path,
                       "is larger than 1 MiB");
    }
  }
}

}  // namespace

bool Contains(const std::vector<IdRange>& ranges, std::uint32_t id) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const IdRange& range) {
    return id >= range.first && id <= range.last;
  });
}

bool AllowsCgroup(const RuleConfig& rule, std::string_view path) {
  return std::any_of(
      rule.cgroups.begin(), rule.cgroups.end(),
      [&](const std::string& top) { return paths::IsAtOrBelow(path, top); });
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
    return ReadRoot(Reader(origin), root);
  } catch (const toml::parse_error& error) {
    return MakeError(
        Code::kInvalidArgument, "config",
        std::string(origin) + ":" + std::to_string(error.source().begin.line),
        std::string(error.description()));
  }
}

Result<Config> LoadConfig(const std::string& path, bool require_root_owned) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.valid()) {
    return ErrnoError(errno, "open", path);
  }
  struct stat status {};
  if (fstat(file.get(), &status) != 0) {
    return ErrnoError(errno, "fstat", path);
  }
  if (!S_ISREG(status.st_mode)) {
    return MakeError(Code::kInvalidArgument, "config", path,
                     "is not a regular file");
  }
  if (require_root_owned &&
      (status.st_uid != 0 || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)) {
    return MakeError(Code::kPermissionDenied, "config", path,
                     "must belong to root and be writable by nobody else");
  }
  MOUNTD_ASSIGN(const std::string text, ReadWhole(path, file.get()));
  return ParseConfig(text, path);
}

}  // namespace mountd
