// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/base/unique_fd.h"

namespace mountd::test {

// A stream socket that listens at `path`, open to everybody; what was there is
// replaced.
UniqueFd ListenAt(const std::string& path);

}  // namespace mountd::test
