// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/base/result.h"

namespace mountd::csi {

// What this process can give up by itself, whatever started it: every
// capability (all five sets, for good), new privileges by exec, core dumps
// (they would hold secrets) and gRPC's logging (it would hold plugins' texts
// and, when tracing, whole messages). Before the first thread.
Result<void> GiveUpPrivileges();

}  // namespace mountd::csi
