// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

namespace mountd::agent {

// pkttyagent(1), which asks for a password on this process's terminal when
// polkit wants one for what it does: where there is a terminal, and no agent of
// a desktop's. Without one polkit has nobody to ask, and refuses.
//
// Lives as long as this object, and no longer than the process.
class PolkitAgent {
 public:
  // Waits until it is registered, or cannot be.
  PolkitAgent();
  ~PolkitAgent();
  PolkitAgent(const PolkitAgent&) = delete;
  PolkitAgent& operator=(const PolkitAgent&) = delete;

 private:
  pid_t pid_ = -1;
};

}  // namespace mountd::agent
