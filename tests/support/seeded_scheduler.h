// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "mountd/base/steps.h"

namespace mountd::testing {

// Runs threads one at a time, in an order that a seed decides: the same seed is
// the same run. A thread may be exchanged for another one before each step
// (Begin), and before it takes a mutex or waits.
//
// What is blocked is known, not guessed: the program is linked so that
// (CMakeLists.txt: --wrap) its std::mutex, std::condition_variable and
// std::thread come here first. Of threads that run side by side between two
// steps, and are only looked at from outside, whichever is faster gets the next
// lock; and who merely has not begun to run looks like one that waits.
//
// ThreadSanitizer sees none of the exchanges (futex(2), and annotations), so
// that it still finds what only they keep apart.
class SeededScheduler final : public Steps {
 public:
  // The step fails with it instead of being done; 0: it does not.
  using Failure = std::function<int(std::string_view step)>;

  explicit SeededScheduler(std::uint64_t seed);
  ~SeededScheduler() override;
  SeededScheduler(const SeededScheduler&) = delete;
  SeededScheduler& operator=(const SeededScheduler&) = delete;

  // Runs `body`, and all threads it starts, which have ended when it returns.
  // Threads that there were before run as ever, and are to notify none of
  // these. Ends the process, and says what came before, if all wait for each
  // other, or one of them or a mutex is left.
  void Run(const std::function<void()>& body);
  // Called for each step, in the thread whose turn it is.
  void SetFailure(Failure failure) { failure_ = std::move(failure); }

  // "<thread> <what it did next>" for each time that another thread got the
  // turn, and each step.
  const std::vector<std::string>& trace() const { return trace_; }
  std::string TraceEnd(std::size_t most) const;

  int Begin(std::string_view step) override;
  void End() override {}

  // ---- What the program's threads call instead of the library's ----
  struct Turn;
  static SeededScheduler* OfThisThread();
  void Lock(void* mutex);
  bool TryLock(void* mutex);
  void Unlock(void* mutex);
  // `until`: null for ever. False: its time had come.
  bool Wait(void* condition, void* mutex, clockid_t clock,
            const timespec* until);
  void Notify(void* condition, bool all);
  Turn* Started();
  void Named(Turn* turn, std::thread::native_handle_type handle);
  void RunStarted(Turn* turn, const std::function<void()>& body);
  void AwaitEnd(std::thread::native_handle_type handle);

 private:
  struct Held {
    Turn* owner = nullptr;
    int times = 0;
  };

  std::size_t Random(std::size_t below);
  void Yield(const char* what);
  void Block(const void* on, const char* what);
  void Wake(const void* on, bool all);
  void Choose(const char* what);
  bool ExpireOne();
  void Leave();
  [[noreturn]] void End(const char* why);

  std::mt19937_64 random_;
  const std::size_t stay_;  // so often a thread goes on, of 16 times
  Failure failure_ = [](std::string_view) { return 0; };
  std::deque<std::unique_ptr<Turn>> turns_;
  Turn* running_ = nullptr;
  std::map<const void*, Held> mutexes_;  // held by these threads
  std::vector<std::string> trace_;
};

}  // namespace mountd::testing
