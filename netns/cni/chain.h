// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "netns/cni/deadline.h"
#include "netns/cni/plugin_error.h"
#include "netns/cni/plugins.h"
#include "netns/cni/record.h"

namespace mountd::cni {

// What a plugin gets on its stdin (CNI 1.1, section 3): its part of the list
// with the list's name and version, of the capabilities those that it declares
// as runtimeConfig, and the previous result unless that is null.
Json PluginConfig(const Record& record, const Json& plugin,
                  const Json& previous);

// The version to speak: the highest that the list has, or, where it has
// several, that all its plugins support.
std::string ChooseVersion(const NetworkList& list, const Plugins& plugins,
                          const Deadline& deadline);

// The plugins of one attachment's list, one after the other. Both outlive this.
class Chain {
 public:
  Chain(const Plugins& plugins, const Record& record)
      : plugins_(plugins), record_(record) {}

  // Told each plugin's answer, checked, before the next one runs.
  using Progress = std::function<Result<void>(const Json& result)>;

  // ADD, in order. `tried` counts those that were started, the one that failed
  // included. The record's result is not looked at.
  PluginOutcome<void> Add(const Deadline& deadline, const Progress& progress,
                          std::size_t& tried) const;

  // CHECK, in order, up to the first that finds something.
  PluginOutcome<void> Check(const Deadline& deadline) const;

  // DEL of the first `count`, in reverse, over all failures. `netns` is empty
  // where the namespace is gone. No plugin may use up the time of the others.
  std::vector<PluginError> Del(std::size_t count, const std::string& netns,
                               const Deadline& deadline) const;

 private:
  Plugins::Call CallOf(std::string verb, std::string netns) const;

  const Plugins& plugins_;
  const Record& record_;
};

}  // namespace mountd::cni
