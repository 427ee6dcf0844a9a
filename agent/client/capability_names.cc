// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/client/capability_names.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "agent/types_plugins.h"

namespace mountd::agent {
namespace {

using Names = std::span<const std::string_view>;

constexpr std::string_view kControllerService = "CONTROLLER_SERVICE";

// PluginCapability.Service.Type, by number.
constexpr std::array<std::string_view, 6> kServices = {
    "UNKNOWN",
    kControllerService,
    "VOLUME_ACCESSIBILITY_CONSTRAINTS",
    "GROUP_CONTROLLER_SERVICE",
    "SNAPSHOT_METADATA_SERVICE",
    "SNAPSHOT_ACCESSIBILITY_CONSTRAINTS",
};

// ControllerServiceCapability.RPC.Type, by number.
constexpr std::array<std::string_view, 18> kControllerRpcs = {
    "UNKNOWN",
    "CREATE_DELETE_VOLUME",
    "PUBLISH_UNPUBLISH_VOLUME",
    "LIST_VOLUMES",
    "GET_CAPACITY",
    "CREATE_DELETE_SNAPSHOT",
    "LIST_SNAPSHOTS",
    "CLONE_VOLUME",
    "PUBLISH_READONLY",
    "EXPAND_VOLUME",
    "LIST_VOLUMES_PUBLISHED_NODES",
    "VOLUME_CONDITION",
    "GET_VOLUME",
    "SINGLE_NODE_MULTI_WRITER",
    "MODIFY_VOLUME",
    "GET_SNAPSHOT",
    "GET_VOLUME_HEALTH",
    "LIST_VOLUME_HEALTH",
};

// NodeServiceCapability.RPC.Type, by number.
constexpr std::array<std::string_view, 9> kNodeRpcs = {
    "UNKNOWN",
    "STAGE_UNSTAGE_VOLUME",
    "GET_VOLUME_STATS",
    "EXPAND_VOLUME",
    "VOLUME_CONDITION",
    "SINGLE_NODE_MULTI_WRITER",
    "VOLUME_MOUNT_GROUP",
    "GET_VOLUME_HEALTH",
    "GET_STORAGE_HEALTH",
};

Names NamesOf(Form kind) {
  switch (kind) {
    case Form::kServices:
      return kServices;
    case Form::kControllerRpcs:
      return kControllerRpcs;
    case Form::kNodeRpcs:
      return kNodeRpcs;
    default:
      return {};
  }
}

bool HasControllerService(const PluginStatus& plugin) {
  const auto& all = plugin.plugin_capabilities;
  return std::find(all.begin(), all.end(), kControllerService) != all.end();
}

}  // namespace

std::vector<std::string> CapabilityNames(
    Form kind, const std::vector<std::int32_t>& numbers) {
  const Names known = NamesOf(kind);
  std::vector<std::string> names;
  names.reserve(numbers.size());
  for (const std::int32_t number : numbers) {
    const bool is_known =
        number >= 0 && static_cast<std::size_t>(number) < known.size();
    names.push_back(is_known
                        ? std::string(known[static_cast<std::size_t>(number)])
                        : std::to_string(number));
  }
  return names;
}

bool ControllerRequired(const PluginStatus& plugin) {
  return HasControllerService(plugin) ||
         std::any_of(plugin.instances.begin(), plugin.instances.end(),
                     HasControllerService);
}

}  // namespace mountd::agent
