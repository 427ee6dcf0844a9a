// SPDX-License-Identifier: LGPL-2.1-or-later
#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>

#include <chrono>
#include <cstdlib>

#include "mountd/base/fd_limit.h"
#include "mountd/daemon/daemon.h"

// From ready to the end: what it does now and then, another configuration, and
// when it ends by itself.
namespace mountd {
namespace {

// For what is under way when it is to be started again.
constexpr std::chrono::milliseconds kLastCalls{2000};

}  // namespace

Result<void> Daemon::Run() {
  sd_notify(0, "READY=1");
  spdlog::info("ready");
  Result<void> ended = loop_->Run();
  sd_notify(0, "STOPPING=1");
  bus_.reset();
  peers_.Close();
  return ended;
}

// On a worker. Executors first: what the new rules allow, the old executors
// would refuse.
Result<std::vector<std::string>> Daemon::Reload() {
  MOUNTD_ASSIGN(Config next, LoadConfig(options_.config_path,
                                        /*require_root_owned=*/true));
  std::vector<std::string> sections = live_config_.FixedOtherIn(next);
  executors_.Renew();
  live_config_.ReplaceLive(std::move(next));
  if (sections.empty()) {
    spdlog::info("the new configuration is in force");
  } else {
    spdlog::info("the new configuration needs a start: {}",
                 fmt::join(sections, ", "));
    loop_->Post([this] { RestartSoon(); });
  }
  return sections;
}

// Calls under way are answered first, if that is soon: one that is cut off is
// as one of a mountd that was killed.
void Daemon::RestartSoon() {
  restart_ = true;
  quit_when_quiet_ = true;
  loop_->After(kLastCalls, [this] { loop_->Quit(); });
  QuitIfQuiet();
}

void Daemon::QuitIfQuiet() {
  if (quit_when_quiet_ && operations_.running() == 0) {
    loop_->Quit();
  }
}

bool Daemon::IsBusy() const {
  return peers_.peer_count() != 0 || operations_.running() != 0 ||
         owed_watch_.last().count != 0 || executor_.stuck() != 0 ||
         cni_garbage_ ||
         (bus_ != nullptr && (bus_->HasSubscribers() || bus_->IsAsking()));
}

void Daemon::EndIfIdle() {
  const auto now = std::chrono::steady_clock::now();
  if (options_.exit_when_idle.count() == 0 || quit_when_quiet_) {
    return;
  }
  if (IsBusy()) {
    busy_at_ = now;
  }
  if (now - busy_at_ < options_.exit_when_idle) {
    return;
  }
  busy_at_ = now;  // for the next look, if it owns something
  strands_.Submit("idle", [this, now] {
    const Result<bool> owns = service_.OwnsSomething();
    if (owns && !*owns) {
      loop_->Post([this, now] { EndIdle(now); });
    }
  });
}

// Told first: who calls from now on finds a service that is stopping, and is
// held until it is started again. What was sent before is still answered, and
// may have made something: then it is started again without being called.
void Daemon::EndIdle(std::chrono::steady_clock::time_point since) {
  // A call that has ended since may have made what was not seen.
  if (quit_when_quiet_ || IsBusy() || busy_at_ != since) {
    return;
  }
  spdlog::info("has nothing to do: ends until it is called");
  sd_notify(0, "STOPPING=1");
  peers_.Close();
  if (bus_ != nullptr) {
    bus_->GiveUpName();
  }
  restart_ = operations_.running() != 0;
  quit_when_quiet_ = true;
  QuitIfQuiet();
}

void Daemon::TidyUpLater() {
  loop_->After(tidy_up_pause_, [this] {
    TellIfStuck();
    executors_.CloseIdle();
    ReleaseLeftAnchors();
    EndIfIdle();
    // sd-bus (252) keeps the descriptors of a message that it finds malformed:
    // any peer can make them pile up. Starting again loses nothing.
    if (IsShortOfFds()) {
      spdlog::critical("almost out of file descriptors: starting again");
      spdlog::shutdown();
      std::_Exit(EXIT_FAILURE);
    }
    TidyUpLater();
  });
}

}  // namespace mountd
