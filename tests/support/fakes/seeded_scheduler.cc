// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/fakes/seeded_scheduler.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>

#if defined(__SANITIZE_THREAD__)
#define MOUNTD_UNSEEN_BY_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MOUNTD_UNSEEN_BY_TSAN 1
#endif
#endif

#ifdef MOUNTD_UNSEEN_BY_TSAN
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
}
#endif

// The functions of the library, by the linker's names.
//
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming):
// the linker's names.
extern "C" {
int __real_pthread_mutex_lock(pthread_mutex_t* mutex);
int __real_pthread_mutex_trylock(pthread_mutex_t* mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t* mutex);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace mountd::testing {
namespace {

constexpr std::size_t kChances = 16;

// Hides from TSan what one thread at a time touches without a lock that TSan
// knows.
class Unseen {
 public:
#ifdef MOUNTD_UNSEEN_BY_TSAN
  Unseen() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
  }
  ~Unseen() {
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  Unseen() {}
  ~Unseen() {}
#endif
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

pthread_mutex_t* AsMutex(void* mutex) {
  return static_cast<pthread_mutex_t*>(mutex);
}

}  // namespace

// A thread, and whether it has the turn.
struct SeededScheduler::Turn {
  Turn(SeededScheduler& its_scheduler, std::size_t its_number)
      : scheduler(its_scheduler), number(its_number) {}

  void Give() {
    given = 1;
    ::syscall(SYS_futex, &given, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
  void Await() {
    while (given.exchange(0) == 0) {
      ::syscall(SYS_futex, &given, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
    }
  }

  SeededScheduler& scheduler;
  const std::size_t number;
  std::atomic<std::uint32_t> given = 0;
  const void* blocked_on = nullptr;
  // A blocked thread goes on at this time at the latest.
  const timespec* until = nullptr;
  clockid_t clock = CLOCK_MONOTONIC;
  bool expired = false;
  bool ended = false;
  bool is_named = false;
  std::thread::native_handle_type handle{};
};

namespace {
thread_local SeededScheduler::Turn* this_thread = nullptr;
}  // namespace

SeededScheduler::SeededScheduler(std::uint64_t seed)
    : random_(seed),
      stay_(std::array<std::size_t, 4>{0, 8, 12, 15}.at(random_() % 4)) {}

SeededScheduler::~SeededScheduler() = default;

SeededScheduler* SeededScheduler::OfThisThread() {
  return this_thread == nullptr ? nullptr : &this_thread->scheduler;
}

void SeededScheduler::Run(const std::function<void()>& body) {
  RunStarted(Started(), body);
}

std::string SeededScheduler::TraceEnd(std::size_t most) const {
  std::string text;
  for (std::size_t i = trace_.size() - std::min(most, trace_.size());
       i < trace_.size(); ++i) {
    text += trace_[i] + "\n";
  }
  return text;
}

int SeededScheduler::Begin(std::string_view step) {
  if (this_thread == nullptr) {
    return 0;
  }
  Yield("lets go");
  const Unseen unseen;
  trace_.push_back(std::to_string(running_->number) + " " + std::string(step));
  return failure_(step);
}

std::size_t SeededScheduler::Random(std::size_t below) {
  return random_() % below;
}

// ---- The turn ----

void SeededScheduler::Yield(const char* what) {
  const Unseen unseen;
  if (Random(kChances) >= stay_) {
    Choose(what);
  }
}

void SeededScheduler::Block(const void* on, const char* what) {
  running_->blocked_on = on;
  Choose(what);
}

void SeededScheduler::Wake(const void* on, bool all) {
  std::vector<Turn*> blocked;
  for (const auto& turn : turns_) {
    if (turn->blocked_on == on) {
      blocked.push_back(turn.get());
    }
  }
  // A condition variable may wake any of its waiters.
  if (!all && !blocked.empty()) {
    blocked = {blocked[Random(blocked.size())]};
  }
  for (Turn* turn : blocked) {
    turn->blocked_on = nullptr;
  }
}

// Gives the turn to a thread that can go on, possibly the same one, and waits
// until this thread has the turn again.
void SeededScheduler::Choose(const char* what) {
  Turn* const self = running_;
  std::vector<Turn*> ready;
  do {
    for (const auto& turn : turns_) {
      if (turn->blocked_on == nullptr && !turn->ended) {
        ready.push_back(turn.get());
      }
    }
  } while (ready.empty() && ExpireOne());
  if (ready.empty()) {
    End("all threads wait for each other");
  }
  Turn* const next = ready[Random(ready.size())];
  if (next == self) {
    return;
  }
  trace_.push_back(std::to_string(self->number) + " " + what + ": " +
                   std::to_string(next->number));
  running_ = next;
  next->Give();
  if (!self->ended) {
    self->Await();
  }
}

// Sleeps until the first timeout of a blocked thread, because no thread can go
// on before, and lets that thread go on. False if no thread has a timeout.
bool SeededScheduler::ExpireOne() {
  Turn* first = nullptr;
  for (const auto& turn : turns_) {
    if (turn->blocked_on != nullptr && turn->until != nullptr &&
        (first == nullptr ||
         std::pair(turn->until->tv_sec, turn->until->tv_nsec) <
             std::pair(first->until->tv_sec, first->until->tv_nsec))) {
      first = turn.get();
    }
  }
  if (first == nullptr) {
    return false;
  }
  ::clock_nanosleep(first->clock, TIMER_ABSTIME, first->until, nullptr);
  first->expired = true;
  first->blocked_on = nullptr;
  return true;
}

void SeededScheduler::End(const char* why) {
  std::fprintf(stderr, "%s; what came before:\n%s", why, TraceEnd(100).c_str());
  std::abort();
}

// ---- Mutexes and condition variables ----

// Locks the real mutex, too, because threads outside the scheduler also lock
// some mutexes, though never for long.
void SeededScheduler::Lock(void* mutex) {
  Yield("locks");
  while (__real_pthread_mutex_trylock(AsMutex(mutex)) != 0) {
    {
      const Unseen unseen;
      if (mutexes_.contains(mutex)) {
        Block(mutex, "is locked out");
        continue;
      }
    }
    __real_pthread_mutex_lock(AsMutex(mutex));
    break;
  }
  const Unseen unseen;
  Held& held = mutexes_[mutex];
  held.owner = running_;
  ++held.times;
}

bool SeededScheduler::TryLock(void* mutex) {
  Yield("tries to lock");
  if (__real_pthread_mutex_trylock(AsMutex(mutex)) != 0) {
    return false;
  }
  const Unseen unseen;
  Held& held = mutexes_[mutex];
  held.owner = running_;
  ++held.times;
  return true;
}

void SeededScheduler::Unlock(void* mutex) {
  __real_pthread_mutex_unlock(AsMutex(mutex));
  const Unseen unseen;
  const auto held = mutexes_.find(mutex);
  if (held != mutexes_.end() && --held->second.times == 0) {
    mutexes_.erase(held);
    Wake(mutex, true);
  }
}

// Yields between the caller's check of its condition and the wait, so that a
// thread that changes the condition without the mutex is found.
bool SeededScheduler::Wait(void* condition, void* mutex, clockid_t clock,
                           const timespec* until) {
  Yield("is to wait");
  Unlock(mutex);
  bool in_time = true;
  {
    const Unseen unseen;
    running_->clock = clock;
    running_->until = until;
    Turn* const self = running_;
    Block(condition, "waits");
    self->until = nullptr;
    in_time = !std::exchange(self->expired, false);
  }
  Lock(mutex);
  return in_time;
}

void SeededScheduler::Notify(void* condition, bool all) {
  const Unseen unseen;
  Wake(condition, all);
}

// ---- Threads ----

SeededScheduler::Turn* SeededScheduler::Started() {
  const Unseen unseen;
  turns_.push_back(std::make_unique<Turn>(*this, turns_.size()));
  if (running_ == nullptr) {
    running_ = turns_.back().get();
    running_->Give();
  }
  return turns_.back().get();
}

void SeededScheduler::Named(Turn* turn,
                            std::thread::native_handle_type handle) {
  const Unseen unseen;
  turn->handle = handle;
  turn->is_named = true;
}

void SeededScheduler::RunStarted(Turn* turn,
                                 const std::function<void()>& body) {
  {
    const Unseen unseen;
    turn->Await();
    this_thread = turn;
  }
  body();
  this_thread = nullptr;
  const Unseen unseen;
  turn->ended = true;
  Wake(turn, true);
  Leave();
}

void SeededScheduler::Leave() {
  if (running_ != turns_.front().get()) {
    Choose("ends");
    return;
  }
  if (!mutexes_.empty() ||
      !std::all_of(turns_.begin(), turns_.end(),
                   [](const auto& turn) { return turn->ended; })) {
    End("a thread has not ended, or a mutex is not free");
  }
  running_ = nullptr;
}

void SeededScheduler::AwaitEnd(std::thread::native_handle_type handle) {
  const Unseen unseen;
  const auto found =
      std::find_if(turns_.begin(), turns_.end(), [handle](const auto& turn) {
        return turn->is_named && turn->handle == handle;
      });
  if (found == turns_.end()) {
    return;
  }
  Turn* const turn = found->get();
  while (!turn->ended) {
    Block(turn, "joins");
  }
  // The handle is forgotten, because the next thread may get the same one.
  turn->is_named = false;
}

}  // namespace mountd::testing
