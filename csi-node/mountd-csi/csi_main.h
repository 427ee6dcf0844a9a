// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/base/steps.h"

namespace mountd::csi {

// The main() of mountd-csi.
int CsiMain(int argc, char** argv, Steps* steps = nullptr);

}  // namespace mountd::csi
