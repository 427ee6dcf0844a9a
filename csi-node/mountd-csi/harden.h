// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/base/result.h"

namespace mountd::csi {

// Gives up what this process can give up by itself, no matter how it was
// started: all capabilities (all five sets, for good), new privileges by exec,
// core dumps, because they would hold secrets, and gRPC's logging, because it
// would hold plugins' texts and, when tracing, whole messages. Call before the
// first thread starts.
Result<void> GiveUpPrivileges();

}  // namespace mountd::csi
