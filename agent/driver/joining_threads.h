// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "mountd/base/result.h"

namespace mountd::driver {

// Owns the threads of one call. Ends and joins them, even if the start of one
// of them failed. One thread calls.
class JoiningThreads {
 public:
  // `end` makes each running thread return. Join calls `end` once, before it
  // joins the threads.
  explicit JoiningThreads(std::function<void()> end) : end_(std::move(end)) {}
  ~JoiningThreads() { Join(); }
  JoiningThreads(const JoiningThreads&) = delete;
  JoiningThreads& operator=(const JoiningThreads&) = delete;

  // ResourceExhausted if the kernel has no room for a thread, with the task as
  // `object`.
  Result<void> Start(const std::string& task_id, std::function<void()> body) {
    try {
      threads_.emplace_back(std::move(body));
    } catch (const std::system_error& error) {
      return ForkError(error.code().value(), "exec", task_id);
    }
    return Ok();
  }

  void Join() {
    if (const auto end = std::exchange(end_, nullptr)) {
      end();
    }
    for (std::thread& thread : threads_) {
      thread.join();
    }
    threads_.clear();
  }

 private:
  std::function<void()> end_;
  std::vector<std::thread> threads_;
};

}  // namespace mountd::driver
