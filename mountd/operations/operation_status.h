// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "mountd/base/error.h"
#include "mountd/base/progress.h"

// Reports on operations: one that is under way, one that has ended, and the
// counts of a method.
namespace mountd {

struct MethodStatistics {
  std::string method;
  std::uint64_t calls = 0;
  std::uint64_t errors = 0;
  std::uint64_t median_us = 0;
  std::uint64_t p99_us = 0;
};

// The outcome of an operation, for its one log line.
struct OperationSummary {
  std::string id;
  std::string method;
  std::string object;  // its strand, which names the object
  std::uint32_t uid = 0;
  std::chrono::microseconds duration{0};
  const Error* error = nullptr;  // null: success
  std::string rules;             // Decisions::Rules
  bool announced = false;        // some caller was answered InProgress
};

// An operation that is running or queued.
struct OperationStatus {
  std::string id;
  std::string method;
  std::string object;
  std::uint32_t uid = 0;
  std::chrono::milliseconds elapsed{0};  // since the call
  std::uint32_t waiters = 0;
  bool cancelled = false;
  Progress::Status progress;
};

}  // namespace mountd
