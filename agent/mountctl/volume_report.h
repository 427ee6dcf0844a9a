// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "agent/client.h"
#include "agent/mountctl/json.h"

// All that can be told of one volume: `volume status`.
namespace mountd::agent {

struct VolumeReport {
  std::string plugin;
  std::string volume;
  std::optional<VolumeStatus> published{};  // for the allocation asked about
  std::optional<StagedVolume> staged{};     // on this node
  std::optional<PluginVolume> known{};      // to its plugin's controller
};

// NotFound if the allocation has no volume of that alias.
Result<VolumeReport> ReportOfAlias(Client& client,
                                   const std::string& allocation,
                                   const std::string& alias);
// A controller that cannot be asked is no error if the volume is staged here.
// NotFound if nobody knows it.
Result<VolumeReport> ReportOfVolume(Client& client, const std::string& plugin,
                                    const std::string& volume);

// Every page of them.
Result<std::vector<PluginVolume>> AllPluginVolumes(Client& client,
                                                   const std::string& plugin);

Json ToJson(const VolumeReport& report);
void PrintVolumeReport(std::ostream& out, const VolumeReport& report);

}  // namespace mountd::agent
