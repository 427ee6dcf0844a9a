// SPDX-License-Identifier: LGPL-2.1-or-later
// mountd-csi, whose calls of plugins and answers to mountd are steps.
#include "csi-node/mountd-csi/csi_main.h"
#include "tests/fault/shared_steps.h"

int main(int argc, char** argv) {
  using namespace mountd::testing;
  static SharedSteps steps(StepProcess::kCsi);
  return mountd::csi::CsiMain(argc, argv, &steps);
}
