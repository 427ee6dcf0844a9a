// SPDX-License-Identifier: LGPL-2.1-or-later
// mountd-exec, whose calls of the kernel are steps.
#include "mountd/exec/executor_main.h"
#include "tests/fault/shared_steps.h"
#include "tests/support/fakes/injecting_kernel.h"

int main(int argc, char** argv) {
  using namespace mountd;
  static testing::SharedSteps steps(testing::StepProcess::kExecutor);
  return exec::ExecutorMain(
      argc, argv, [](exec::Kernel& real) -> exec::Kernel& {
        static exec::InjectingKernel stepped(real, &steps);
        return stepped;
      });
}
