// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/config/config_plugin.h"

#include <algorithm>

namespace mountd {
namespace {

constexpr std::size_t kMaxArguments = 64;
constexpr std::size_t kMaxArgumentBytes = 4096;
// So that the path of the plugin's socket fits into 107 bytes.
constexpr std::size_t kMaxName = 79;

Result<void> ReadChoice(const ConfigReader& reader, const toml::table& table,
                        std::string_view key, const std::string& where,
                        std::initializer_list<std::string_view> choices,
                        std::string& out) {
  MOUNTD_TRY(reader.Scalar(table, key, where, out));
  if (std::find(choices.begin(), choices.end(), out) != choices.end()) {
    return Ok();
  }
  std::string list;
  for (const std::string_view choice : choices) {
    list.append(list.empty() ? "" : ", ").append(choice);
  }
  const toml::node* node = table.get(key);
  return reader.At(node == nullptr ? table : *node, where + std::string(key),
                   "must be one of " + list);
}

Result<void> ReadCommand(const ConfigReader& reader, const toml::table& table,
                         const std::string& where,
                         std::vector<std::string>& command) {
  const auto fault = [&](const std::string& text) -> std::string {
    const bool printable =
        std::none_of(text.begin(), text.end(),
                     [](unsigned char c) { return c < 0x20 || c == 0x7f; });
    if (!printable || text.size() > kMaxArgumentBytes) {
      return "has a control character or is too long";
    }
    return command.size() < kMaxArguments ? ""
                                          : "exceeds the limit on arguments";
  };
  MOUNTD_TRY(reader.Strings(
      table, "command", where,
      [&](const std::string& text, const toml::node& node) -> Result<void> {
        if (const std::string why = fault(text); !why.empty()) {
          return reader.At(node, where + "command", "an argument " + why);
        }
        command.push_back(text);
        return Ok();
      }));
  if (command.empty() || !IsNormalisedPath(command.front())) {
    const toml::node* node = table.get("command");
    return reader.At(node == nullptr ? table : *node, where + "command",
                     "must begin with a program: " + std::string(kNormalised));
  }
  return Ok();
}

}  // namespace

Result<PluginConfig> ReadPlugin(const ConfigReader& reader,
                                const toml::table& table,
                                const std::string& where) {
  MOUNTD_TRY(reader.OnlyKeys(
      table, where,
      {"type", "command", "restart", "health_timeout_ms", "bare_directories"}));
  PluginConfig plugin;
  MOUNTD_TRY(ReadChoice(reader, table, "type", where,
                        {"node", "controller", "monolith"}, plugin.type));
  MOUNTD_TRY(ReadChoice(reader, table, "restart", where,
                        {"always", "on-failure", "no"}, plugin.restart));
  MOUNTD_TRY(ReadCommand(reader, table, where, plugin.command));
  MOUNTD_TRY(reader.Number(table, "health_timeout_ms", where, 1, 3'600'000,
                           plugin.health_timeout_ms));
  MOUNTD_TRY(
      reader.Scalar(table, "bare_directories", where, plugin.bare_directories));
  return plugin;
}

std::string FaultOfPluginName(const std::string& name) {
  if (name.find_first_of("[]") != std::string::npos) {
    return "must be a valid unit name, without brackets";
  }
  return name.size() <= kMaxName ? ""
                                 : "is so long that its socket's path would "
                                   "exceed the kernel's limit";
}

}  // namespace mountd
