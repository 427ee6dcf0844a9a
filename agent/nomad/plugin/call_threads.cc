// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/plugin/call_threads.h"

#include <system_error>
#include <thread>
#include <utility>

namespace mountd::nomad {

CallThreads::~CallThreads() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return running_ == 0; });
}

bool CallThreads::Run(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    ++running_;
  }
  const auto end = [this] {
    const std::lock_guard lock(mutex_);
    --running_;
    changed_.notify_all();
  };
  try {
    std::thread([end, work = std::move(work)]() mutable {
      work();
      work = nullptr;  // before the last word, because it may hold objects
      end();
    }).detach();
  } catch (const std::system_error&) {
    end();
    return false;
  }
  return true;
}

}  // namespace mountd::nomad
