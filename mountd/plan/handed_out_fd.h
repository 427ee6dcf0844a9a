// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/base/unique_fd.h"
#include "mountd/plan/values.h"

namespace mountd::exec {

// A detached mount or a network namespace for a caller. `mount` names the
// mount; a namespace leaves it empty.
struct HandedOutFd {
  UniqueFd fd;
  HandedOutMount mount;
};

}  // namespace mountd::exec
