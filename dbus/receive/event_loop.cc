// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/receive/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <csignal>
#include <iterator>
#include <utility>

namespace mountd::dbus {
namespace {

// Calls `body` from C. Every closure is entered here, so an exception ends the
// process instead of leaving sd-event broken.
template <typename F>
int Guarded(F body) noexcept {
  body();
  return 0;
}

class IoSource final : public EventLoop::Source {
 public:
  explicit IoSource(std::function<void(std::uint32_t)> closure)
      : closure_(std::move(closure)) {}
  ~IoSource() override { sd_event_source_disable_unref(source_); }
  IoSource(const IoSource&) = delete;
  IoSource& operator=(const IoSource&) = delete;

  int Add(sd_event* event, int fd, std::uint32_t events) {
    return sd_event_add_io(event, &source_, fd, events, &IoSource::Dispatch,
                           this);
  }
  void SetEvents(std::uint32_t events) override {
    sd_event_source_set_io_events(source_, events);
  }

 private:
  static int Dispatch(sd_event_source* /*source*/, int /*fd*/,
                      std::uint32_t events, void* userdata) {
    return Guarded([&] {
      // The closure may destroy this source, so the copy keeps it alive while
      // it runs.
      const auto closure = static_cast<IoSource*>(userdata)->closure_;
      closure(events);
    });
  }

  sd_event_source* source_ = nullptr;
  std::function<void(std::uint32_t)> closure_;
};

Error LoopError(int negative_errno, const char* op) {
  return ErrnoError(-negative_errno, op, "event loop");
}

}  // namespace

struct EventLoop::Timer {
  EventLoop& loop;
  std::function<void()> closure;
  std::list<Timer>::iterator self{};
  sd_event_source* source = nullptr;

  Timer(EventLoop& owner, std::function<void()> run)
      : loop(owner), closure(std::move(run)) {}
  ~Timer() { sd_event_source_disable_unref(source); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
};

Result<std::unique_ptr<EventLoop>> EventLoop::Create() {
  sd_event* event = nullptr;
  if (const int status = sd_event_new(&event); status < 0) {
    return LoopError(status, "create");
  }
  std::unique_ptr<EventLoop> loop(new EventLoop(event));
  MOUNTD_TRY(loop->Start());
  return loop;
}

EventLoop::EventLoop(sd_event* event) : event_(event) {}

EventLoop::~EventLoop() {
  // The timers and the source are sources of event_, so they go first.
  timers_.clear();
  wake_source_.reset();
  sd_event_unref(event_);
}

Result<void> EventLoop::Start() {
  // EFD_NONBLOCK, because neither the loop nor a thread that posts may wait
  // here (eventfd(2)).
  wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.valid()) {
    return ErrnoError(errno, "eventfd", "event loop");
  }
  wake_source_ =
      WatchFd(wake_.get(), EPOLLIN, [this](std::uint32_t) { RunPosted(); });
  // Blocks the signals for all threads, which start later, because sd-event
  // reads signals from a signalfd.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  for (const int signal : {SIGTERM, SIGINT}) {
    // sd-event exits the loop on a signal without a handler.
    if (const int status =
            sd_event_add_signal(event_, nullptr, signal, nullptr, nullptr);
        status < 0) {
      return LoopError(status, "watch signal");
    }
  }
  return Ok();
}

std::unique_ptr<Loop::Source> EventLoop::WatchFd(
    int fd, std::uint32_t events, std::function<void(std::uint32_t)> closure) {
  auto source = std::make_unique<IoSource>(std::move(closure));
  if (source->Add(event_, fd, events) < 0) {
    return nullptr;
  }
  return source;
}

void EventLoop::Post(std::function<void()> closure) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    wake = posted_.empty();
    posted_.push_back(std::move(closure));
  }
  // One wake-up is enough for all closures until RunPosted.
  if (wake) {
    eventfd_write(wake_.get(), 1);
  }
}

void EventLoop::RunPosted() {
  eventfd_t ignored = 0;
  eventfd_read(wake_.get(), &ignored);
  std::vector<std::function<void()>> closures;
  {
    const std::lock_guard lock(mutex_);
    closures.swap(posted_);
  }
  // Does not hold the lock, because a closure may call Post.
  for (const auto& closure : closures) {
    closure();
  }
}

int EventLoop::DispatchTimer(sd_event_source* /*source*/, std::uint64_t /*now*/,
                             void* userdata) {
  return Guarded([&] {
    auto* const timer = static_cast<Timer*>(userdata);
    // The erase destroys the timer, so its closure moves out first.
    const auto closure = std::move(timer->closure);
    timer->loop.timers_.erase(timer->self);
    closure();
  });
}

void EventLoop::After(std::chrono::milliseconds delay,
                      std::function<void()> closure) {
  Timer& timer = timers_.emplace_back(*this, std::move(closure));
  timer.self = std::prev(timers_.end());
  const auto microseconds =
      std::chrono::duration_cast<std::chrono::microseconds>(delay).count();
  // 1 ms of accuracy, because 0 would mean sd-event's default of 250 ms
  // (sd_event_add_time(3)).
  if (sd_event_add_time_relative(event_, &timer.source, CLOCK_MONOTONIC,
                                 static_cast<std::uint64_t>(microseconds), 1000,
                                 &DispatchTimer, &timer) < 0) {
    // There is no memory for a timer. Run the closure now, because late is
    // worse than early.
    Post(std::move(timer.closure));
    timers_.pop_back();
  }
}

Result<void> EventLoop::Run() {
  thread_ = std::this_thread::get_id();
  // The watchdog starts here and not earlier. systemd begins to count at the
  // first ping, and a recovery may take longer than systemd waits.
  if (const int status = sd_event_set_watchdog(event_, 1); status < 0) {
    return LoopError(status, "watchdog");
  }
  const int status = sd_event_loop(event_);
  if (status < 0) {
    return LoopError(status, "run");
  }
  return Ok();
}

void EventLoop::Quit() { sd_event_exit(event_, 0); }

}  // namespace mountd::dbus
