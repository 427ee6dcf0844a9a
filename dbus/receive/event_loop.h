// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <systemd/sd-event.h>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "mountd/base/loop.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::dbus {

// Owns the daemon's one event loop, over sd-event(3). Enters every callback
// through one noexcept trampoline, because an exception that passes through
// libsystemd would break the loop.
class EventLoop final : public Loop {
 public:
  static Result<std::unique_ptr<EventLoop>> Create();
  ~EventLoop() override;
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  void Post(std::function<void()> closure) override;
  void After(std::chrono::milliseconds delay,
             std::function<void()> closure) override;

  std::unique_ptr<Source> WatchFd(
      int fd, std::uint32_t events,
      std::function<void(std::uint32_t)> closure) override;

  // Runs until Quit, SIGTERM or SIGINT. Returns an error only if the loop
  // itself broke.
  Result<void> Run();
  void Quit();

  bool InLoopThread() const { return std::this_thread::get_id() == thread_; }
  sd_event* raw() { return event_; }

 private:
  explicit EventLoop(sd_event* event);

  struct Timer;

  Result<void> Start();
  void RunPosted();
  static int DispatchTimer(sd_event_source* source, std::uint64_t now,
                           void* userdata);

  sd_event* event_;
  std::thread::id thread_ = std::this_thread::get_id();
  UniqueFd wake_;
  std::unique_ptr<Source> wake_source_;
  std::list<Timer> timers_;  // closures that After delays; the loop's thread
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;
};

}  // namespace mountd::dbus
