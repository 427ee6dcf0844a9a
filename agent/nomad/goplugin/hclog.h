// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mountd/base/unique_fd.h"

namespace mountd::goplugin {

enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError };

using LogPairs = std::vector<std::pair<std::string, std::string>>;

// Returns one line of hclog's JSON, with its newline, of at most 50 KiB,
// because a host cuts lines at 64 KiB. `at` is in microseconds since the epoch.
std::string HclogLine(LogLevel level, std::string_view module,
                      std::string_view message, const LogPairs& pairs,
                      std::uint64_t at);

// Writes the plugin's log to stderr, which the host reads. Any thread. Drops
// lines while the host does not read and after the host has ended, so that no
// caller waits for the host.
class Hclog {
 public:
  explicit Hclog(std::string module);
  Hclog(const Hclog&) = delete;
  Hclog& operator=(const Hclog&) = delete;

  void Write(LogLevel level, std::string_view message,
             const LogPairs& pairs = {});

 private:
  const std::string module_;
  std::mutex mutex_;
  UniqueFd own_;      // stderr, non-blocking; invalid if it cannot be opened
  bool cut_ = false;  // the last line was not written to its end
};

}  // namespace mountd::goplugin
