// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <mutex>
#include <optional>

#include "mountd/service/service_parts.h"

namespace mountd {

// Owns an executor's answer about itself and the kernel. Runs on workers;
// thread-safe. After an answer, never asks again.
class ExecutorFeatures {
 public:
  explicit ExecutorFeatures(const ServiceParts& parts) : parts_(parts) {}

  Result<exec::HelloReply> Get();

 private:
  const ServiceParts& parts_;
  std::mutex mutex_;
  std::optional<exec::HelloReply> hello_;  // mutex_
};

}  // namespace mountd
