// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>

#include "mountd/kernel/kernel.h"

namespace mountd::exec {

// Runs mountd-exec: its main(). `around` gets the real kernel and returns the
// kernel to use, which the owner of `around` keeps alive.
using AroundKernel = std::function<Kernel&(Kernel&)>;
int ExecutorMain(int argc, char** argv, const AroundKernel& around = {});

}  // namespace mountd::exec
