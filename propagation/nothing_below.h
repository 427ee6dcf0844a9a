// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "propagation/source.h"

namespace mountd::propagation {

// FailedPrecondition if something is mounted below a source whose clone has no
// mounts below it, because the task would get another tree than its allocation
// was promised. A mount that comes after this check is not in the clone.
Result<void> CheckNothingBelow(const Context& context, const Source& source,
                               const std::string& object);

}  // namespace mountd::propagation
