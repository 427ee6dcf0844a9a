// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "agent/mountd-cni/environment.h"
#include "mountd/base/result.h"

namespace mountd::cni_plugin {

// The plugin's output and exit status.
struct Answer {
  std::string output;  // for stdout: JSON, or nothing
  int status = 0;
  // Lines for stderr, which a runtime passes on to its own log; "" for none.
  std::string warning{};
};

// Runs one call. `input` is all of stdin, or the error of reading it. Never
// throws.
Answer RunPlugin(const Environment& environment,
                 const Result<std::string>& input);

// Reads the whole file, up to 1 MiB. InvalidArgument if there is more;
// otherwise the errno's code.
Result<std::string> ReadInput(int fd);

}  // namespace mountd::cni_plugin
