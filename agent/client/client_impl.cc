// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/client/client_impl.h"

#include <algorithm>
#include <thread>

#include "agent/client/sealed_secrets.h"

namespace mountd::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// mountd's default (timeouts.patience_ms).
constexpr milliseconds kDefaultPatience{20'000};
constexpr milliseconds kJoinPause{10};
constexpr char kTraceParent[] = "traceparent";

}  // namespace

void AddText(dbus::Dict& options, const char* key, const std::string& text) {
  if (!text.empty()) {
    options.emplace(key, dbus::Value(text));
  }
}

void AddMap(dbus::Dict& options, const char* key,
            const std::map<std::string, std::string>& map) {
  if (!map.empty()) {
    options.emplace(key, dbus::Value(map));
  }
}

void AddBytes(dbus::Dict& options, const char* key, std::int64_t bytes) {
  if (bytes != 0) {
    options.emplace(key, dbus::Value(bytes));
  }
}

Result<void> AddSecrets(const std::map<std::string, std::string>& secrets,
                        dbus::Dict& options) {
  if (!secrets.empty()) {
    MOUNTD_ASSIGN(UniqueFd fd, SealSecrets(secrets));
    options.emplace("secrets",
                    dbus::Value(sdbus::UnixFd(fd.release(), sdbus::adopt_fd)));
  }
  return Ok();
}

Result<void> Client::Impl::Connect() {
  MOUNTD_ASSIGN(connection_, Connection::Open(options_, nullptr));
  trace_is_unknown_ = false;  // because this may be another mountd
  return Ok();
}

Result<void> Client::Impl::Run(const std::string& op, const std::string& object,
                               dbus::Dict options, const Step& call) {
  if (!trace_is_unknown_) {
    AddText(options, kTraceParent, names_.traceparent);
  }
  AddText(options, "request_id", names_.request_id);
  if (!options_.on_call) {
    return RunJoining(op, object, std::move(options), call);
  }
  options_.on_call(op);
  Result<void> done = RunJoining(op, object, std::move(options), call);
  options_.on_call("");
  return done;
}

Result<void> Client::Impl::RunJoining(const std::string& op,
                                      const std::string& object,
                                      dbus::Dict options, const Step& call) {
  const auto deadline = steady_clock::now() + options_.deadline;
  for (;;) {
    const auto started = steady_clock::now();
    SetPatience(options, deadline - started);
    Result<void> done = Once(op, object, options, call);
    if (done || done.error().code != Code::kInProgress || !options_.join ||
        steady_clock::now() >= deadline ||
        (options_.give_up && options_.give_up())) {
      return done;
    }
    // A daemon that answers InProgress at once must not make this a busy loop.
    if (steady_clock::now() - started < kJoinPause) {
      std::this_thread::sleep_for(kJoinPause);
    }
  }
}

void Client::Impl::SetPatience(dbus::Dict& options,
                               steady_clock::duration left) const {
  milliseconds patience = options_.patience;
  const auto left_ms =
      std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(left));
  // The patience is not more than the time that is left, so that the daemon
  // answers InProgress, with the operation's id, before the deadline.
  if (options_.join &&
      left_ms < (patience.count() == 0 ? kDefaultPatience : patience)) {
    patience = left_ms;
  }
  if (patience.count() > 0) {
    options["patience_ms"] =
        dbus::Value(static_cast<std::uint32_t>(patience.count()));
  }
}

Result<void> Client::Impl::Once(const std::string& op,
                                const std::string& object, dbus::Dict& options,
                                const Step& call) {
  // The analyzer does not see that the flag is read after an exception.
  // NOLINTBEGIN(clang-analyzer-deadcode.DeadStores)
  bool may_reconnect = options_.reconnect;
  bool was_there = false;
  for (;;) {
    if (connection_ == nullptr) {
      if (!options_.reconnect) {
        return WithAway(
            Away::kRestarting,
            MakeError(Code::kUnavailable, op, object,
                      "the connection to mountd is lost; connect again"));
      }
      may_reconnect = false;
      // NOLINTEND(clang-analyzer-deadcode.DeadStores)
      if (Result<void> connected = Connect(); !connected) {
        // A call that finds its connection broken says kRestarting, because
        // mountd may be restarting. A later call that finds nobody says
        // kDaemon.
        return was_there
                   ? WithAway(Away::kRestarting, std::move(connected).error())
                   : std::move(connected).error();
      }
    }
    CallFailure failure;
    try {
      call(connection_->proxy(), options);
      return Ok();
    } catch (const sdbus::Error& error) {
      failure = FailureOfOwnCall(error, op, object);
    }
    if (failure.connection_lost) {
      connection_.reset();
      was_there = true;
    }
    if (options_.optional_trace && failure.unknown_option == kTraceParent &&
        options.erase(kTraceParent) > 0) {
      // The refused call has done nothing, because mountd checks all options
      // first. So the client calls again without the trace.
      trace_is_unknown_ = true;
      continue;
    }
    if (!failure.connection_lost || !may_reconnect) {
      return failure.error;
    }
  }
}

}  // namespace mountd::agent
