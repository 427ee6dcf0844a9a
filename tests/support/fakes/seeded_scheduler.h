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

// Runs threads one at a time, in an order that a seed decides: the same seed
// gives the same run. May give the turn to another thread before each step
// (Begin), and before a thread locks a mutex or waits.
//
// The scheduler knows which threads are blocked, because the program is linked
// so that its std::mutex, std::condition_variable and std::thread call the
// scheduler first (CMakeLists.txt: --wrap). It does not let threads run side by
// side between two steps and watch them from outside, because then the faster
// thread would get the next lock, and a thread that has not begun to run would
// look like one that waits.
//
// ThreadSanitizer sees none of the exchanges (futex(2), and annotations), so it
// still finds data races that only the exchanges prevent.
class SeededScheduler final : public Steps {
 public:
  // Returns the errno that the step fails with instead of being done; 0 if it
  // does not fail.
  using Failure = std::function<int(std::string_view step)>;

  explicit SeededScheduler(std::uint64_t seed);
  ~SeededScheduler() override;
  SeededScheduler(const SeededScheduler&) = delete;
  SeededScheduler& operator=(const SeededScheduler&) = delete;

  // Runs `body`, and all threads it starts, which have ended when it returns.
  // Earlier threads run as ever, and must notify none of these. Ends the
  // process, with the trace, if all threads wait for each other, or if one of
  // them or a mutex is left.
  void Run(const std::function<void()>& body);
  // Sets the function that is called for each step, in the thread that has the
  // turn.
  void SetFailure(Failure failure) { failure_ = std::move(failure); }

  // Returns "<thread> <what it did next>" for each change of the turn, and for
  // each step.
  const std::vector<std::string>& trace() const { return trace_; }
  std::string TraceEnd(std::size_t most) const;

  int Begin(std::string_view step) override;
  void End() override {}

  // ---- The program's threads call these instead of the library's ----
  struct Turn;
  static SeededScheduler* OfThisThread();
  void Lock(void* mutex);
  bool TryLock(void* mutex);
  void Unlock(void* mutex);
  // A null `until` waits for ever. False if `until` has passed.
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
  const std::size_t stay_;  // of 16 chances, so many keep the thread running
  Failure failure_ = [](std::string_view) { return 0; };
  std::deque<std::unique_ptr<Turn>> turns_;
  Turn* running_ = nullptr;
  std::map<const void*, Held> mutexes_;  // held by these threads
  std::vector<std::string> trace_;
};

}  // namespace mountd::testing
