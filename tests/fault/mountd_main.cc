// SPDX-License-Identifier: LGPL-2.1-or-later
// mountd, whose plans, RPCs and writes of its stores are steps.
#include "mountd/daemon/daemon_main.h"
#include "tests/fault/shared_steps.h"
#include "tests/fault/stepped_csi_client.h"
#include "tests/fault/stepped_executor.h"
#include "tests/fault/stepped_vfs.h"

int main(int argc, char** argv) {
  using namespace mountd::testing;
  static SharedSteps steps(StepProcess::kMountd);
  StepStores(steps);
  mountd::Seams seams;
  seams.executor = [](mountd::exec::Executor& real) -> mountd::exec::Executor& {
    static SteppedExecutor stepped(real, steps);
    return stepped;
  };
  seams.csi = [](mountd::csi::CsiClient& real) -> mountd::csi::CsiClient& {
    static SteppedCsiClient stepped(real, steps);
    return stepped;
  };
  // The pause is short, because tests wait after each step for what mountd does
  // in its own time.
  seams.tidy_up_pause = std::chrono::milliseconds(20);
  return mountd::DaemonMain(argc, argv, seams);
}
