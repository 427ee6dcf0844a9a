// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "mountd/base/result.h"

namespace mountd::bench {

// What processes of one name hold, all of them together.
struct ProcessFigures {
  int processes = 0;
  double pss_mb = 0;        // proc(5), smaps_rollup: shared pages in parts
  double anonymous_mb = 0;  // of that: what is no file's
  int threads = 0;
  int fds = 0;
};

// Of this mount namespace. Some may end meanwhile; those are in no figure.
Result<ProcessFigures> FiguresOf(const std::string& name);
std::vector<pid_t> PidsOf(const std::string& name);

}  // namespace mountd::bench
