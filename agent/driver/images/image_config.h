// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"

namespace mountd::driver {

// How an image wants to be run (OCI image-spec 1.0, config.md). If the root
// file system is a plain directory, all members have their defaults.
struct ImageConfig {
  std::vector<std::string> entrypoint;
  std::vector<std::string> command;      // "Cmd"
  std::vector<std::string> environment;  // "NAME=value"
  std::string user;                      // for ResolveUser
  std::string working_directory;         // absolute; "" is "/"
  int stop_signal = 0;                   // 0: the image names none

  bool operator==(const ImageConfig&) const = default;
};

// Parses an image's configuration. Other members, such as ExposedPorts, have no
// effect. InvalidArgument with the member that is wrong. NotSupported for an
// image of another operating system.
Result<ImageConfig> ParseImageConfig(std::string_view text,
                                     const std::string& object);

// Returns the number of "SIGTERM", "TERM", "15", "SIGRTMIN+3" or "RTMAX-1".
// InvalidArgument for another text.
Result<int> ParseSignal(std::string_view text);

}  // namespace mountd::driver
