// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>

#include "mountd/exec/kernel.h"

namespace mountd::exec {

// mountd-exec's main(). `around` is given the real kernel and answers the one
// to be used, which it owns.
using AroundKernel = std::function<Kernel&(Kernel&)>;
int ExecutorMain(int argc, char** argv, const AroundKernel& around = {});

}  // namespace mountd::exec
