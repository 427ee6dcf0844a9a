// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/daemon/daemon_main.h"

int main(int argc, char** argv) { return mountd::DaemonMain(argc, argv); }
