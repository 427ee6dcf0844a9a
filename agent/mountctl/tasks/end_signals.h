// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "mountd/base/unique_fd.h"

namespace mountd::agent {

// Turns SIGINT, SIGTERM, SIGHUP and SIGQUIT into calls while the object lives.
// A signal that is ignored, as under nohup(1), stays so. SIGPIPE does nothing
// meanwhile, so a write to a closed pipe fails with EPIPE. A program that this
// process starts has the default actions. There is one object at a time in a
// process.
class EndSignals {
 public:
  // `count` is 1 for the first signal since this object exists.
  using Call = std::function<void(int count)>;

  EndSignals();
  ~EndSignals();
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  // Calls `call` for each later signal, on a thread of its own, and at once if
  // there was a signal before. Returns once no call of the previous function
  // runs.
  void Then(Call call);
  // Returns the first signal so far, or 0.
  int first() const;

  // Puts the default action back, and ends the process by the first signal.
  [[noreturn]] void EndProcess() const;

 private:
  void Listen();

  UniqueFd reader_;
  UniqueFd writer_;
  std::mutex mutex_;
  Call call_;                       // mutex_
  int count_ = 0;                   // mutex_
  std::vector<std::thread> calls_;  // mutex_
  std::thread listener_;
};

}  // namespace mountd::agent
