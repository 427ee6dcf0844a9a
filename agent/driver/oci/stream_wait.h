// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "mountd/base/unique_fd.h"

namespace mountd::driver {

// The pauses of a stream. One thread sleeps. Any thread calls Cancel, after
// which no call sleeps.
class StreamWait {
 public:
  // `shutdown` can be read once the driver shuts down; the caller keeps it.
  explicit StreamWait(int shutdown)
      : shutdown_(shutdown), cancelled_(::eventfd(0, EFD_CLOEXEC)) {}

  // False at once after Cancel, and after the driver's shutdown.
  bool Sleep(std::chrono::milliseconds pause) const {
    constexpr std::int64_t kMost = 3'600'000;
    std::array<pollfd, 2> waiting = {
        {{cancelled_.get(), POLLIN, 0}, {shutdown_, POLLIN, 0}}};
    return ::poll(waiting.data(), waiting.size(),
                  static_cast<int>(
                      std::clamp<std::int64_t>(pause.count(), 0, kMost))) <= 0;
  }
  bool goes_on() const { return Sleep(std::chrono::milliseconds(0)); }
  void Cancel() const { ::eventfd_write(cancelled_.get(), 1); }

 private:
  int shutdown_;
  UniqueFd cancelled_;
};

}  // namespace mountd::driver
