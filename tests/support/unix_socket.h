// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/base/unique_fd.h"

namespace mountd::test {

// Returns a stream socket that listens at `path`, open to everybody. Replaces a
// file that is there.
UniqueFd ListenAt(const std::string& path);

}  // namespace mountd::test
