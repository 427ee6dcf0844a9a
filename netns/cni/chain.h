// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "netns/cni/deadline.h"
#include "netns/cni/documents/plugin_error.h"
#include "netns/cni/plugin_programs.h"
#include "netns/cni/record.h"

namespace mountd::cni {

// Returns a plugin's configuration for its stdin (CNI 1.1, section 3): its part
// of the list with the list's name and version, the capabilities that the
// plugin declares as runtimeConfig, and the previous result unless that is
// null.
Json PluginConfig(const Record& record, const Json& plugin,
                  const Json& previous);

// Returns the version to speak: the list's highest, or, if the list has
// several, the highest that all its plugins support.
std::string ChooseVersion(const NetworkList& list,
                          const PluginPrograms& plugins,
                          const Deadline& deadline);

// Runs the plugins of one attachment's list one after the other. Plugins and
// record outlive this.
class Chain {
 public:
  Chain(const PluginPrograms& plugins, const Record& record)
      : plugins_(plugins), record_(record) {}

  // Called with each plugin's checked answer before the next plugin runs.
  using Progress = std::function<Result<void>(const Json& result)>;

  // Runs ADD, in order. `tried` counts the started plugins, also the one that
  // failed. Ignores the record's result.
  PluginOutcome<void> Add(const Deadline& deadline, const Progress& progress,
                          std::size_t& tried) const;

  // Runs CHECK, in order, up to the first plugin that reports an error.
  PluginOutcome<void> Check(const Deadline& deadline) const;

  // Runs DEL of the first `count` plugins in reverse order, and continues after
  // a failure. `netns` is empty if the namespace is gone. Each plugin gets only
  // a part of the time, so that the others have some left.
  std::vector<PluginError> Del(std::size_t count, const std::string& netns,
                               const Deadline& deadline) const;

 private:
  PluginPrograms::Call CallOf(std::string verb, std::string netns) const;

  const PluginPrograms& plugins_;
  const Record& record_;
};

}  // namespace mountd::cni
