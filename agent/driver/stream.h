// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>

#include "mountd/base/result.h"

namespace mountd::driver {

// A sequence of values that a driver sends, such as a task's statistics.
// The caller owns the stream; destroying the stream ends it.
//
// One thread calls Next, and any thread calls Cancel.
template <typename T>
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;

  // Waits for the next value. nullopt: the stream has ended, and every later
  // call answers nullopt, too. DriverIsAway(error) is true if the driver went
  // away.
  virtual Result<std::optional<T>> Next() = 0;

  // Makes a waiting Next, and every later one, return nullopt. Idempotent.
  virtual void Cancel() = 0;
};

}  // namespace mountd::driver
