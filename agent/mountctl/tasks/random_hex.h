// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/base/result.h"

namespace mountd::agent {

// Returns eight random digits for a name. `object` is the error's.
Result<std::string> RandomHex(const std::string& object);

}  // namespace mountd::agent
