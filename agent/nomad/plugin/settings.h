// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/nomad/plugin/schema.h"
#include "mountd/base/result.h"

namespace mountd::nomad {

// The plugin's configuration in the client's file: plugin "mountd" { config {}
// }.
struct Settings {
  bool operator==(const Settings&) const = default;

  // Where tasks are kept; $STATE_DIRECTORY, $XDG_STATE_HOME or ~/.local/state
  // with "/mountd" without one.
  std::string state{};
  std::string runtime{};  // of OCI; "": crun
  std::string shim{};     // "": the installed one
  std::string cgroup{};   // OciDriverOptions::cgroup
  std::string address{};  // of mountd; "": the default
  // Images come from these directories alone. A task may read all that its
  // image has, with the rights of the agent's user.
  std::vector<std::string> image_directories{};
};

Keys SettingKeys();

// InvalidArgument with the key.
Result<Settings> ReadSettings(const std::string& msgpack);

// Returns the directory of the tasks. FailedPrecondition if neither the
// settings nor the environment name one.
Result<std::string> StateOf(const Settings& settings);

// Returns the image with its path's symlinks followed, so that no later link
// leads elsewhere. PermissionDenied if it is in none of the directories.
Result<std::string> CheckImage(const Settings& settings,
                               const std::string& image);

}  // namespace mountd::nomad
