// SPDX-License-Identifier: LGPL-2.1-or-later
// mountd-exec carries out plans for mountd on one connected socket, and ends
// when mountd closes that socket. It runs in the host's mount and network
// namespaces.
#include "mountd/exec/executor_main.h"

int main(int argc, char** argv) {
  return mountd::exec::ExecutorMain(argc, argv);
}
