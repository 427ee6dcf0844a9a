// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-task-shim is the parent of one task (shim.h). A driver starts it with
// LaunchShim (agent/driver/protocol/launch.h).
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "agent/driver/shim/setup.h"
#include "agent/driver/shim/shim.h"
#include "mountd/base/out_of_memory.h"

int main() {
  mountd::EndWhenOutOfMemory("mountd-task-shim");
  auto setup = mountd::shim::TakeSetup();
  if (!setup) {
    std::fprintf(stderr, "mountd-task-shim: %s\n",
                 setup.error().Message().c_str());
    return EXIT_FAILURE;
  }
  const auto ended = mountd::shim::Shim(*std::move(setup)).Run();
  return ended ? EXIT_SUCCESS : EXIT_FAILURE;
}
