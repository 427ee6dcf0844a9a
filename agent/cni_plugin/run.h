// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "agent/cni_plugin/environment.h"
#include "mountd/base/result.h"

namespace mountd::cni_plugin {

// What the plugin prints and how it ends.
struct Answer {
  std::string output;  // for stdout: JSON, or nothing
  int status = 0;
};

// One call: `input` is all of stdin, or why it could not be read. Never throws.
Answer RunPlugin(const Environment& environment,
                 const Result<std::string>& input);

// All of the file, up to 1 MiB. InvalidArgument if there is more; otherwise the
// errno's code.
Result<std::string> ReadInput(int fd);

}  // namespace mountd::cni_plugin
