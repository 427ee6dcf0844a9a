// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "agent/driver/exec_stream.h"

namespace mountd::driver {

// Passes a terminal's sizes from one thread to another. Next returns the newest
// size only, because a terminal needs no older size. Any thread.
class LastSize final : public Stream<TerminalSize> {
 public:
  Result<std::optional<TerminalSize>> Next() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_cancelled_ || size_; });
    if (is_cancelled_) {
      return std::optional<TerminalSize>();
    }
    return std::exchange(size_, std::nullopt);
  }
  void Cancel() override {
    const std::lock_guard lock(mutex_);
    is_cancelled_ = true;
    changed_.notify_all();
  }
  void Put(TerminalSize size) {
    const std::lock_guard lock(mutex_);
    size_ = size;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<TerminalSize> size_;
  bool is_cancelled_ = false;
};

}  // namespace mountd::driver
