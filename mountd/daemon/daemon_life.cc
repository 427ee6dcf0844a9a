// SPDX-License-Identifier: LGPL-2.1-or-later
#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>

#include <chrono>
#include <cstdlib>

#include "mountd/base/fd_limit.h"
#include "mountd/daemon/daemon.h"

// The life of a ready mountd: periodic work, a reload of the configuration, and
// the end by its own decision.
namespace mountd {
namespace {

// Time for calls under way before mountd restarts.
constexpr std::chrono::milliseconds kLastCalls{2000};

}  // namespace

Result<void> Daemon::Run() {
  sd_notify(0, "READY=1");
  spdlog::info("ready");
  Result<void> ended = loop_->Run();
  sd_notify(0, "STOPPING=1");
  // Give up the bus name and the peers' socket only after STOPPING, because
  // then systemd keeps new callers waiting.
  bus_.reset();
  peers_.Close();
  return ended;
}

// Runs on a worker. Renews the executors before mountd's own configuration,
// because old executors would refuse plans that the new rules allow.
Result<std::vector<std::string>> Daemon::Reload() {
  MOUNTD_ASSIGN(Config next, LoadConfig(options_.config_path,
                                        /*require_root_owned=*/true));
  std::vector<std::string> sections =
      live_config_.SectionsThatNeedRestart(next);
  executors_.Renew();
  live_config_.ReplaceLive(std::move(next));
  if (sections.empty()) {
    spdlog::info("the new configuration is in force");
  } else {
    spdlog::info(
        "mountd starts again, because these sections of the configuration "
        "changed: {}",
        fmt::join(sections, ", "));
    loop_->Post([this] { RestartSoon(); });
  }
  return sections;
}

// Waits a short time for calls under way. The next start recovers a call that
// is cut off, as after a kill of mountd.
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
  busy_at_ = now;  // restarts the idle time in case mountd owns something
  // A worker looks, because OwnsSomething reads the stores.
  strands_.Submit("idle", [this, now] {
    const Result<bool> owns = services_.node.OwnsSomething();
    if (owns && !*owns) {
      loop_->Post([this, now] { EndIdle(now); });
    }
  });
}

// Reports STOPPING first, so that systemd keeps new callers waiting until it
// starts mountd again. mountd still answers messages that came earlier. If such
// a call is running, it may make an object, so mountd asks to be started again
// at once.
void Daemon::EndIdle(std::chrono::steady_clock::time_point since) {
  // A call that has ended since then may have made something that OwnsSomething
  // did not see.
  if (quit_when_quiet_ || IsBusy() || busy_at_ != since) {
    return;
  }
  spdlog::info("mountd has nothing to do, so it ends until the next call");
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
    // sd-bus (252) keeps the descriptors of a malformed message, so any peer
    // can use up mountd's descriptors. mountd therefore starts again, which
    // loses nothing.
    if (IsShortOfFds()) {
      spdlog::critical(
          "mountd is almost out of file descriptors, so it starts again");
      spdlog::shutdown();
      std::_Exit(EXIT_FAILURE);
    }
    TidyUpLater();
  });
}

}  // namespace mountd
