// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

namespace mountd::agent {

// Owns a pkttyagent(1), which asks for a password on this process's terminal
// when polkit needs one for this process. Starts it only if there is a
// terminal. A desktop's agent goes before it. Without any agent polkit has
// nobody to ask, and refuses.
//
// pkttyagent ends with this object, or with the process if that ends first.
class PolkitAgent {
 public:
  // Waits until pkttyagent is registered, or cannot be.
  PolkitAgent();
  ~PolkitAgent();
  PolkitAgent(const PolkitAgent&) = delete;
  PolkitAgent& operator=(const PolkitAgent&) = delete;

 private:
  pid_t pid_ = -1;
};

}  // namespace mountd::agent
