// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/subscriber.h"

#include <atomic>
#include <thread>
#include <utility>

#include "agent/client/connection.h"

namespace mountd::agent {

class Subscriber::Impl {
 public:
  explicit Impl(SignalHandlers handlers) : handlers_(std::move(handlers)) {}

  ~Impl() {
    if (thread_.joinable()) {
      stopping_ = true;
      connection_->bus().leaveEventLoop();
      thread_.join();
    }
  }

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Result<void> Start(const ClientOptions& options) {
    MOUNTD_ASSIGN(connection_, Connection::Open(options, &handlers_));
    try {
      connection_->proxy().Subscribe(
          handlers_.spans ? dbus::Dict{{"spans", dbus::Value(true)}}
                          : dbus::Dict());
    } catch (const sdbus::Error& error) {
      return FailureOfOwnCall(error, "Subscribe", "").error;
    }
    // The thread starts after Subscribe, because only one thread at a time may
    // use the connection.
    thread_ = std::thread([this] { Loop(); });
    return Ok();
  }

 private:
  void Loop() {
    Error why = WithAway(Away::kRestarting,
                         MakeError(Code::kUnavailable, "Subscribe", "",
                                   "mountd closed the connection"));
    try {
      connection_->bus().enterEventLoop();
    } catch (const sdbus::Error& error) {
      why =
          WithAway(Away::kRestarting, FailureOf(error, "Subscribe", "").error);
    }
    if (!stopping_ && handlers_.lost) {
      handlers_.lost(why);
    }
  }

  const SignalHandlers handlers_;
  std::atomic<bool> stopping_{false};
  std::unique_ptr<Connection> connection_;
  std::thread thread_;
};

Result<Subscriber> Subscriber::Start(const ClientOptions& options,
                                     SignalHandlers handlers) {
  auto impl = std::make_unique<Impl>(std::move(handlers));
  MOUNTD_TRY(impl->Start(options));
  return Subscriber(std::move(impl));
}

Subscriber::Subscriber(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Subscriber::Subscriber(Subscriber&&) noexcept = default;
Subscriber& Subscriber::operator=(Subscriber&&) noexcept = default;
Subscriber::~Subscriber() = default;

}  // namespace mountd::agent
