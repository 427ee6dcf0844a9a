// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "agent/client.h"
#include "agent/mountctl/output/json.h"

// Collects all facts about one volume, for `volume status`.
namespace mountd::agent {

struct VolumeReport {
  std::string plugin;
  std::string volume;
  std::optional<VolumeStatus> published{};  // for the given allocation
  std::optional<StagedVolume> staged{};     // on this node
  std::optional<PluginVolume> known{};      // by the plugin's controller
};

// NotFound if the allocation has no volume with that alias.
Result<VolumeReport> ReportOfAlias(Client& client,
                                   const std::string& allocation,
                                   const std::string& alias);
// A controller that cannot be asked is no error if the volume is staged here.
// NotFound if neither this node nor the controller knows the volume.
Result<VolumeReport> ReportOfVolume(Client& client, const std::string& plugin,
                                    const std::string& volume);

// Returns the volumes of all pages.
Result<std::vector<PluginVolume>> AllPluginVolumes(Client& client,
                                                   const std::string& plugin);

Json ToJson(const VolumeReport& report);
void PrintVolumeReport(std::ostream& out, const VolumeReport& report);

}  // namespace mountd::agent
