// SPDX-License-Identifier: LGPL-2.1-or-later
// The functions that --wrap calls instead of the library's. A thread of a
// SeededScheduler goes to the scheduler, any other thread to the library.

// libstdc++ requires this macro from implementers of its threads: since GCC 14
// a thread's function is private to others.
#define _GLIBCXX_THREAD_IMPL  // NOLINT(bugprone-reserved-identifier)
#include <pthread.h>

#include <cerrno>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "tests/support/fakes/seeded_scheduler.h"

namespace mountd::testing {
namespace {

// The state of a thread that runs as one of the scheduler's.
struct ScheduledState final : std::thread::_State {
  ScheduledState(SeededScheduler& its_scheduler,
                 SeededScheduler::Turn* its_turn, std::thread::_State_ptr its)
      : scheduler(its_scheduler), turn(its_turn), state(std::move(its)) {}
  void _M_run() override {
    scheduler.RunStarted(turn, [this] {
      state->_M_run();
      state.reset();
    });
  }

  SeededScheduler& scheduler;
  SeededScheduler::Turn* turn;
  std::thread::_State_ptr state;
};

}  // namespace
}  // namespace mountd::testing

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming):
// the linker's names.
extern "C" {

#define MOUNTD_START \
  _ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE
#define MOUNTD_JOIN _ZNSt6thread4joinEv
#define MOUNTD_WAIT _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE
#define MOUNTD_NOTIFY_ONE _ZNSt18condition_variable10notify_oneEv
#define MOUNTD_NOTIFY_ALL _ZNSt18condition_variable10notify_allEv
#define MOUNTD_PASTE(a, b) a##b
#define MOUNTD_NAMED(prefix, name) MOUNTD_PASTE(prefix, name)
#define REAL(name) MOUNTD_NAMED(__real_, name)
#define WRAP(name) MOUNTD_NAMED(__wrap_, name)

using mountd::testing::SeededScheduler;

int __real_pthread_mutex_lock(pthread_mutex_t* mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t* mutex) {
  if (SeededScheduler* const scheduler = SeededScheduler::OfThisThread()) {
    scheduler->Lock(mutex);
    return 0;
  }
  return __real_pthread_mutex_lock(mutex);
}

int __real_pthread_mutex_trylock(pthread_mutex_t* mutex);
int __wrap_pthread_mutex_trylock(pthread_mutex_t* mutex) {
  if (SeededScheduler* const scheduler = SeededScheduler::OfThisThread()) {
    return scheduler->TryLock(mutex) ? 0 : EBUSY;
  }
  return __real_pthread_mutex_trylock(mutex);
}

int __real_pthread_mutex_unlock(pthread_mutex_t* mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t* mutex) {
  if (SeededScheduler* const scheduler = SeededScheduler::OfThisThread()) {
    scheduler->Unlock(mutex);
    return 0;
  }
  return __real_pthread_mutex_unlock(mutex);
}

int __real_pthread_cond_clockwait(pthread_cond_t* condition,
                                  pthread_mutex_t* mutex, clockid_t clock,
                                  const timespec* until);
int __wrap_pthread_cond_clockwait(pthread_cond_t* condition,
                                  pthread_mutex_t* mutex, clockid_t clock,
                                  const timespec* until) {
  if (SeededScheduler* const scheduler = SeededScheduler::OfThisThread()) {
    return scheduler->Wait(condition, mutex, clock, until) ? 0 : ETIMEDOUT;
  }
  return __real_pthread_cond_clockwait(condition, mutex, clock, until);
}

// A std::condition_variable is its pthread_cond_t, a std::mutex its
// pthread_mutex_t.
void REAL(MOUNTD_WAIT)(std::condition_variable* condition,
                       std::unique_lock<std::mutex>& lock);
void WRAP(MOUNTD_WAIT)(std::condition_variable* condition,
                       std::unique_lock<std::mutex>& lock) {
  if (SeededScheduler* const scheduler = SeededScheduler::OfThisThread()) {
    scheduler->Wait(condition->native_handle(), lock.mutex()->native_handle(),
                    CLOCK_MONOTONIC, nullptr);
    return;
  }
  REAL(MOUNTD_WAIT)(condition, lock);
}

void REAL(MOUNTD_NOTIFY_ONE)(std::condition_variable* condition);
void WRAP(MOUNTD_NOTIFY_ONE)(std::condition_variable* condition) {
  if (SeededScheduler* const scheduler = SeededScheduler::OfThisThread()) {
    scheduler->Notify(condition->native_handle(), false);
  }
  REAL(MOUNTD_NOTIFY_ONE)(condition);
}

void REAL(MOUNTD_NOTIFY_ALL)(std::condition_variable* condition);
void WRAP(MOUNTD_NOTIFY_ALL)(std::condition_variable* condition) {
  if (SeededScheduler* const scheduler = SeededScheduler::OfThisThread()) {
    scheduler->Notify(condition->native_handle(), true);
  }
  REAL(MOUNTD_NOTIFY_ALL)(condition);
}

void REAL(MOUNTD_START)(std::thread* thread, std::thread::_State_ptr state,
                        void (*depend)());
void WRAP(MOUNTD_START)(std::thread* thread, std::thread::_State_ptr state,
                        void (*depend)()) {
  SeededScheduler* const scheduler = SeededScheduler::OfThisThread();
  if (scheduler == nullptr) {
    REAL(MOUNTD_START)(thread, std::move(state), depend);
    return;
  }
  SeededScheduler::Turn* const turn = scheduler->Started();
  REAL(MOUNTD_START)
  (thread,
   std::make_unique<mountd::testing::ScheduledState>(*scheduler, turn,
                                                     std::move(state)),
   depend);
  scheduler->Named(turn, thread->native_handle());
}

void REAL(MOUNTD_JOIN)(std::thread* thread);
void WRAP(MOUNTD_JOIN)(std::thread* thread) {
  if (SeededScheduler* const scheduler = SeededScheduler::OfThisThread()) {
    scheduler->AwaitEnd(thread->native_handle());
  }
  REAL(MOUNTD_JOIN)(thread);
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
