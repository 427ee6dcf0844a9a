// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "netns/cni/request_bounds.h"

namespace mountd::cni {

// The command line. The runner trusts it, because it comes from the program
// that starts the runner. The runner does not trust the request.
struct Options {
  bool help = false;
  std::string verb;
  std::vector<std::string> config_dirs;
  std::vector<std::string> plugin_dirs;
  std::string state_dir;
  std::string kept_dir;  // "": nothing outlives the boot
  // The path of the pinned namespace; "" if there is none any more.
  std::string netns;
  std::uint64_t netns_inode = 0;  // 0: not given
  // If true, DEL and GC use only the records, never the configuration.
  bool recorded = false;
  RequestBounds bounds;
  std::chrono::milliseconds deadline{30000};
  unsigned attempts = 3;
  // The pause before the second attempt; each later pause is twice as long.
  std::chrono::milliseconds backoff{250};
};

extern const char kUsage[];

// Parses the command line. InvalidArgument if it is wrong; the error says what.
Result<Options> ParseOptions(int argc, char** argv);

}  // namespace mountd::cni
