// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "mountd/base/result.h"

namespace mountd::bench {

// The resources of all processes of one name together.
struct ProcessFigures {
  int processes = 0;
  double pss_mb = 0;  // smaps_rollup in proc(5): shared pages count in part
  double anonymous_mb = 0;  // the part of it that belongs to no file
  int threads = 0;
  int fds = 0;
};

// Count processes of this mount namespace. A process that ends meanwhile is in
// no figure.
Result<ProcessFigures> FiguresOf(const std::string& name);
std::vector<pid_t> PidsOf(const std::string& name);

}  // namespace mountd::bench
