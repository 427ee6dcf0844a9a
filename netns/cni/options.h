// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "netns/cni/request_bounds.h"

namespace mountd::cni {

// The command line: what the one who starts the runner has decided, and is
// believed, unlike the request.
struct Options {
  bool help = false;
  std::string verb;
  std::vector<std::string> config_dirs;
  std::vector<std::string> plugin_dirs;
  std::string state_dir;
  std::string kept_dir;  // "": nothing outlives the boot
  // Where the namespace is pinned; "" where there is none any more.
  std::string netns;
  std::uint64_t netns_inode = 0;  // 0: not told
  // DEL and GC go by what is recorded alone, never by the configuration.
  bool recorded = false;
  RequestBounds bounds;
  std::chrono::milliseconds deadline{30000};
  unsigned attempts = 3;
  // Before the second attempt; doubled before each one after.
  std::chrono::milliseconds backoff{250};
};

extern const char kUsage[];

// InvalidArgument, which says what is wrong with it.
Result<Options> ParseOptions(int argc, char** argv);

}  // namespace mountd::cni
