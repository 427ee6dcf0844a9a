// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/executor_features.h"

namespace mountd {

// Asks an executor once, because the kernel's features do not change. A second
// question could keep GetCapabilities waiting while all executors are busy.
Result<exec::HelloReply> ExecutorFeatures::Get() {
  const std::lock_guard lock(mutex_);
  if (!hello_) {
    MOUNTD_ASSIGN(hello_, parts_.executor.Hello());
  }
  return *hello_;
}

}  // namespace mountd
