// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/network_list.h"

#include <algorithm>
#include <array>
#include <utility>

#include "netns/cni/documents/names.h"

namespace mountd::cni {
namespace {

// Ascending. Older versions have no CHECK and give DEL no previous result.
constexpr std::array<std::string_view, 3> kVersions = {"0.4.0", "1.0.0",
                                                       "1.1.0"};

Error BadConfig(const std::string& file, std::string why) {
  return MakeError(Code::kInvalidArgument, "config", file, std::move(why));
}

// Returns the flag; false if it is missing. Accepts "true" as a string, too
// (CNI 1.0 and libcni).
Result<bool> FlagOf(const Json& config, const char* key,
                    const std::string& file) {
  const Json* member = FindMember(config, key);
  if (member == nullptr) {
    return false;
  }
  if (const auto* text = member->get_ptr<const std::string*>();
      text != nullptr && (*text == "true" || *text == "false")) {
    return *text == "true";
  }
  const auto* flag = member->get_ptr<const bool*>();
  if (flag == nullptr) {
    return BadConfig(file, std::string(key) + " must be true or false");
  }
  return *flag;
}

Result<std::vector<std::string>> VersionsOf(const Json& config,
                                            const std::string& file) {
  std::vector<std::string> said;
  if (const auto one = FindText(config, "cniVersion")) {
    said.push_back(*one);
  }
  if (const Json* more = FindMember(config, "cniVersions")) {
    for (const Json& item : *more) {
      const auto* text = item.get_ptr<const std::string*>();
      if (text == nullptr) {
        return BadConfig(file, "cniVersions must be an array of strings");
      }
      said.push_back(*text);
    }
  }
  std::vector<std::string> versions;
  for (const std::string_view version : kVersions) {
    if (std::find(said.begin(), said.end(), version) != said.end()) {
      versions.emplace_back(version);
    }
  }
  if (versions.empty()) {
    return MakeError(Code::kNotSupported, "config", file,
                     "cniVersion must be 0.4.0, 1.0.0 or 1.1.0");
  }
  return versions;
}

Result<void> CheckPlugin(const Json& plugin, const std::string& file) {
  if (!plugin.is_object() || !IsPluginType(TypeOf(plugin))) {
    return BadConfig(file, "each plugin needs a type, of [A-Za-z0-9_.-]");
  }
  const std::string ipam = IpamTypeOf(plugin);
  if (!ipam.empty() && !IsPluginType(ipam)) {
    return BadConfig(file, "ipam.type must be of [A-Za-z0-9_.-]");
  }
  const Json* capabilities = FindMember(plugin, "capabilities");
  if (capabilities != nullptr && !capabilities->is_object()) {
    return BadConfig(file, "capabilities must be an object");
  }
  return Ok();
}

Result<std::vector<Json>> PluginsOf(const Json& config,
                                    const std::string& file) {
  const Json* plugins = FindMember(config, "plugins");
  if (plugins == nullptr) {
    MOUNTD_TRY(CheckPlugin(config, file));
    return std::vector<Json>{config};
  }
  if (!plugins->is_array() || plugins->size() > kMaxPlugins) {
    return BadConfig(file, "plugins must be an array of at most " +
                               std::to_string(kMaxPlugins));
  }
  for (const Json& plugin : *plugins) {
    MOUNTD_TRY(CheckPlugin(plugin, file));
  }
  return std::vector<Json>(plugins->begin(), plugins->end());
}

}  // namespace

Result<NetworkList> ParseNetworkList(std::string_view text,
                                     const std::string& file) {
  MOUNTD_ASSIGN(const Json config, ParseObject(text, kConfigBounds, file));
  return FromJson(config, file);
}

Result<Json> ParsePluginConfig(std::string_view text, const std::string& file) {
  MOUNTD_ASSIGN(Json config, ParseObject(text, kConfigBounds, file));
  MOUNTD_TRY(CheckPlugin(config, file));
  return config;
}

Json ToJson(const NetworkList& list) {
  return {{"name", list.name},
          {"cniVersion", list.Version()},
          {"cniVersions", list.versions},
          {"disableCheck", list.disable_check},
          {"disableGC", list.disable_gc},
          {"loadOnlyInlinedPlugins", list.only_inlined_plugins},
          {"plugins", list.plugins}};
}

Result<NetworkList> FromJson(const Json& config, const std::string& origin) {
  NetworkList list;
  list.name = FindText(config, "name").value_or("");
  if (!IsNetworkName(list.name)) {
    return BadConfig(origin,
                     "name must be up to 128 bytes of [A-Za-z0-9_.-], the "
                     "first a letter or digit");
  }
  MOUNTD_ASSIGN(list.versions, VersionsOf(config, origin));
  MOUNTD_ASSIGN(list.disable_check, FlagOf(config, "disableCheck", origin));
  MOUNTD_ASSIGN(list.disable_gc, FlagOf(config, "disableGC", origin));
  MOUNTD_ASSIGN(list.only_inlined_plugins,
                FlagOf(config, "loadOnlyInlinedPlugins", origin));
  // A single plugin's configuration is complete by itself.
  if (IsAbsent(config, "plugins") && !IsAbsent(config, "type")) {
    list.only_inlined_plugins = true;
  }
  if (!IsAbsent(config, "plugins") || !IsAbsent(config, "type") ||
      list.only_inlined_plugins) {
    MOUNTD_ASSIGN(list.plugins, PluginsOf(config, origin));
  }
  if (list.plugins.empty() && list.only_inlined_plugins) {
    return BadConfig(origin, "must have at least one plugin");
  }
  return list;
}

std::string TypeOf(const Json& plugin) {
  return FindText(plugin, "type").value_or("");
}

std::string IpamTypeOf(const Json& plugin) {
  const Json* ipam = FindMember(plugin, "ipam");
  return ipam == nullptr ? "" : FindText(*ipam, "type").value_or("");
}

bool HasStatusAndGc(std::string_view version) { return version == "1.1.0"; }

}  // namespace mountd::cni
