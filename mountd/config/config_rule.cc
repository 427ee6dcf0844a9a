// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/config/config_rule.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "mountd/base/accounts.h"
#include "mountd/base/names.h"
#include "mountd/base/number_range.h"

namespace mountd {
namespace {

Result<PortRange> ParsePortRange(const std::string& text) {
  const std::optional<NumberRange> range = ParseNumberRange(text, 65535);
  if (!range) {
    return MakeError(Code::kInvalidArgument, "config", text,
                     "is not a port or a range FIRST-LAST");
  }
  return PortRange{static_cast<std::uint16_t>(range->first),
                   static_cast<std::uint16_t>(range->last)};
}

Result<void> ReadSubjects(const ConfigReader& reader, const toml::table& table,
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

// Reads "name", "name:ro", "*" or "*:ro".
Result<void> ReadAccess(const ConfigReader& reader, const toml::table& table,
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

// Reads "name" or "*", each also with the prefix "cni/".
Result<void> ReadNetworks(const ConfigReader& reader, const toml::table& table,
                          const std::string& where, RuleConfig& rule) {
  return reader.Strings(
      table, "networks", where,
      [&](const std::string& text, const toml::node& node) -> Result<void> {
        std::string_view name = text;
        if (name.starts_with(kCniPrefix)) {
          name.remove_prefix(kCniPrefix.size());
        }
        if (name != "*" && !IsValidName(name)) {
          return reader.At(node, where + "networks",
                           "\"" + text + "\" is not NAME or cni/NAME");
        }
        rule.networks.push_back(text);
        return Ok();
      });
}

Result<void> ReadPaths(const ConfigReader& reader, const toml::table& table,
                       const std::string& where, RuleConfig& rule) {
  MOUNTD_TRY(reader.Strings(
      table, "alloc_roots", where,
      [&](const std::string& text, const toml::node& node) -> Result<void> {
        if (!IsNormalisedPath(text)) {
          return reader.At(node, where + "alloc_roots", kNormalised);
        }
        rule.alloc_roots.push_back(text);
        return Ok();
      }));
  return reader.Strings(
      table, "cgroups", where,
      [&](const std::string& text, const toml::node& node) -> Result<void> {
        if (!IsNormalisedPath(text)) {
          return reader.At(node, where + "cgroups",
                           "\"" + text + "\" is not /PATH of a cgroup");
        }
        rule.cgroups.push_back(text);
        return Ok();
      });
}

Result<void> ReadIds(const ConfigReader& reader, const toml::table& table,
                     const std::string& where, RuleConfig& rule) {
  return reader.Strings(
      table, "ids", where,
      [&](const std::string& text, const toml::node& node) -> Result<void> {
        // The range excludes 0, which is root, and UINT32_MAX, which chown(2)
        // reads as "leave it unchanged".
        const auto range = ParseNumberRange(text, UINT32_MAX - 1);
        if (!range) {
          return reader.At(
              node, where + "ids",
              "\"" + text + "\" is not an id above 0 or a range FIRST-LAST");
        }
        rule.ids.push_back({range->first, range->last});
        return Ok();
      });
}

Result<void> ReadStopTasks(const ConfigReader& reader, const toml::table& table,
                           const std::string& where, RuleConfig& rule) {
  constexpr std::string_view kNames[] = {"no", "freeze", "kill"};
  std::string name(kNames[0]);
  MOUNTD_TRY(reader.Scalar(table, "stop_tasks", where, name));
  const auto* const found =
      std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) {
    return reader.At(*table.get("stop_tasks"), where + "stop_tasks",
                     R"(must be "no", "freeze" or "kill")");
  }
  rule.stop_tasks =
      static_cast<exec::TaskStop>(std::distance(std::begin(kNames), found));
  return Ok();
}

Result<RuleConfig> ReadRule(const ConfigReader& reader,
                            const toml::table& table,
                            const std::string& where) {
  MOUNTD_TRY(
      reader.OnlyKeys(table, where, {"users",           "groups",
                                     "host_volumes",    "filesystems",
                                     "plugins",         "register_plugins",
                                     "control_plugins", "networks",
                                     "host_ports",      "ids",
                                     "alloc_roots",     "cgroups",
                                     "bidirectional",   "detached",
                                     "containers",      "container_tmpfs",
                                     "host_namespaces", "stop_tasks",
                                     "administer",      "root_as_caller"}));
  RuleConfig rule;
  rule.line = table.source().begin.line;
  MOUNTD_TRY(ReadSubjects(reader, table, where, rule));
  MOUNTD_TRY(
      ReadAccess(reader, table, "host_volumes", where, rule.host_volumes));
  MOUNTD_TRY(ReadAccess(reader, table, "filesystems", where, rule.filesystems));
  MOUNTD_TRY(reader.Names(table, "plugins", where, rule.plugins));
  MOUNTD_TRY(
      reader.Names(table, "register_plugins", where, rule.register_plugins));
  MOUNTD_TRY(
      reader.Names(table, "control_plugins", where, rule.control_plugins));
  MOUNTD_TRY(ReadNetworks(reader, table, where, rule));
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
  MOUNTD_TRY(ReadPaths(reader, table, where, rule));
  MOUNTD_TRY(ReadIds(reader, table, where, rule));
  MOUNTD_TRY(reader.Scalar(table, "bidirectional", where, rule.bidirectional));
  MOUNTD_TRY(reader.Scalar(table, "detached", where, rule.detached));
  MOUNTD_TRY(reader.Scalar(table, "containers", where, rule.containers));
  MOUNTD_TRY(
      reader.Scalar(table, "container_tmpfs", where, rule.container_tmpfs));
  MOUNTD_TRY(
      reader.Scalar(table, "host_namespaces", where, rule.host_namespaces));
  MOUNTD_TRY(
      reader.Scalar(table, "root_as_caller", where, rule.root_as_caller));
  MOUNTD_TRY(ReadStopTasks(reader, table, where, rule));
  MOUNTD_TRY(reader.Scalar(table, "administer", where, rule.administer));
  return rule;
}

}  // namespace

Result<void> ReadRules(const ConfigReader& reader, const toml::table& root,
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

}  // namespace mountd
