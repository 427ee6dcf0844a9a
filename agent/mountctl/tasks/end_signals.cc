// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/tasks/end_signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <utility>

namespace mountd::agent {
namespace {

constexpr std::array<int, 5> kHandled{SIGINT, SIGTERM, SIGHUP, SIGQUIT,
                                      SIGPIPE};

// The bytes of the pipe.
constexpr char kSignal = 's';
constexpr char kLookAgain = 'l';
constexpr char kQuit = 'q';

std::atomic<int> g_first_signal{0};
std::atomic<int> g_signal_pipe{-1};
std::array<struct sigaction, kHandled.size()> g_actions_before;

void NoteSignal(int number) {
  const int error = errno;
  int none = 0;
  g_first_signal.compare_exchange_strong(none, number);
  // If the pipe is full, the reader wakes in any case.
  (void)!::write(g_signal_pipe, &kSignal, 1);
  errno = error;
}

void NoteNothing(int /*number*/) {}

void HandleSignals() {
  for (std::size_t i = 0; i < kHandled.size(); ++i) {
    struct sigaction action {};
    // Does not use SIG_IGN, because a started program would keep that.
    action.sa_handler = kHandled.at(i) == SIGPIPE ? &NoteNothing : &NoteSignal;
    action.sa_flags = SA_RESTART;
    ::sigaction(kHandled.at(i), &action, &g_actions_before.at(i));
    if (g_actions_before.at(i).sa_handler == SIG_IGN) {
      ::sigaction(kHandled.at(i), &g_actions_before.at(i), nullptr);
    }
  }
}

}  // namespace

EndSignals::EndSignals() {
  std::array<int, 2> ends{-1, -1};
  // If there is no pipe, only first() reports the signal.
  if (::pipe2(ends.data(), O_CLOEXEC) == 0) {
    ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
  }
  reader_.reset(ends[0]);
  writer_.reset(ends[1]);
  g_first_signal = 0;
  g_signal_pipe = writer_.get();
  listener_ = std::thread([this] { Listen(); });
  HandleSignals();
}

EndSignals::~EndSignals() {
  for (std::size_t i = 0; i < kHandled.size(); ++i) {
    ::sigaction(kHandled.at(i), &g_actions_before.at(i), nullptr);
  }
  g_signal_pipe = -1;
  (void)!::write(writer_.get(), &kQuit, 1);
  listener_.join();
  Then({});
}

int EndSignals::first() const { return g_first_signal; }

void EndSignals::EndProcess() const {
  const int number = first();
  (void)std::signal(number, SIG_DFL);
  ::kill(::getpid(), number);
  // The signal is blocked, so kill(2) did not end the process. Exits as a shell
  // does for a signal.
  constexpr int kSignalled = 128;
  ::_exit(kSignalled + number);
}

void EndSignals::Then(Call call) {
  std::vector<std::thread> calls;
  {
    const std::lock_guard lock(mutex_);
    call_ = nullptr;
    calls.swap(calls_);
  }
  for (std::thread& one : calls) {
    one.join();
  }
  const std::lock_guard lock(mutex_);
  call_ = std::move(call);
  if (call_ && count_ > 0) {
    (void)!::write(writer_.get(), &kLookAgain, 1);
  }
}

void EndSignals::Listen() {
  for (;;) {
    char what = kQuit;
    const ssize_t size = ::read(reader_.get(), &what, 1);
    if (size < 0 && errno == EINTR) {
      continue;
    }
    if (size <= 0 || what == kQuit) {
      return;
    }
    const std::lock_guard lock(mutex_);
    count_ += what == kSignal ? 1 : 0;
    if (call_) {
      calls_.emplace_back([call = call_, count = count_] { call(count); });
    }
  }
}

}  // namespace mountd::agent
