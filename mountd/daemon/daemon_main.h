// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/daemon/daemon.h"

namespace mountd {

// Runs mountd: its main().
int DaemonMain(int argc, char** argv, const Seams& seams = {});

}  // namespace mountd
