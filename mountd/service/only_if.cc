// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/only_if.h"

#include <cstddef>
#include <string>
#include <vector>

namespace mountd {
namespace {

constexpr std::size_t kMostNamed = 3;

// Returns "a", "a, b, c and 7 more".
std::string Summary(const std::vector<std::string>& objects) {
  std::string text;
  for (std::size_t i = 0; i < objects.size() && i < kMostNamed; ++i) {
    text += (i == 0 ? "" : ", ") + objects[i];
  }
  return objects.size() <= kMostNamed
             ? text
             : text + " and " + std::to_string(objects.size() - kMostNamed) +
                   " more";
}

}  // namespace

Result<OnlyIf> ParseOnlyIf(std::string_view name) {
  if (name.empty()) {
    return OnlyIf::kAny;
  }
  if (name == "unused") {
    return OnlyIf::kUnused;
  }
  if (name == "empty") {
    return OnlyIf::kEmpty;
  }
  return MakeError(Code::kInvalidArgument, "check", "options[\"only_if\"]",
                   R"(must be "unused" or "empty")");
}

Result<void> CheckOnlyIf(const ServiceParts& parts,
                         const AllocationRecord& record, OnlyIf only_if) {
  if (only_if == OnlyIf::kAny) {
    return Ok();
  }
  std::vector<std::string> used;
  MOUNTD_ASSIGN(const std::vector<PublicationRecord> volumes,
                parts.state.volumes.PublicationsOf(record.id));
  for (const PublicationRecord& volume : volumes) {
    used.push_back("volume " + volume.alias);
  }
  MOUNTD_ASSIGN(const std::vector<MountRecord> mounts,
                parts.boot.mounts.MountsOf(record.id));
  for (const MountRecord& mount : mounts) {
    used.push_back("mount " + mount.task + "/" + mount.name);
  }
  MOUNTD_ASSIGN(const std::vector<PluginRecord> plugins,
                parts.state.plugins.ListPlugins());
  for (const PluginRecord& plugin : plugins) {
    if (plugin.allocation == record.id) {
      used.push_back("plugin " + plugin.id);
    }
  }
  if (only_if == OnlyIf::kEmpty) {
    MOUNTD_ASSIGN(const std::vector<NetworkRecord> networks,
                  parts.boot.networks.NetworksOf(record.id));
    for (const NetworkRecord& network : networks) {
      used.push_back("network " + network.interface);
    }
  }
  return used.empty() ? Ok()
                      : Result<void>(MakeError(Code::kBusy, "release",
                                               "allocation " + record.id,
                                               "has " + Summary(used)));
}

}  // namespace mountd
