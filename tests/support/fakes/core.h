// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "mountd/base/steps.h"
#include "mountd/base/user_groups.h"
#include "mountd/service/services.h"
#include "mountd/store/boot_store.h"
#include "tests/support/fakes/fake_csi_client.h"
#include "tests/support/fakes/fake_executor.h"
#include "tests/support/temp_directory.h"

namespace mountd {

namespace testing {
class SteppedCsiClient;
class SteppedExecutor;
}  // namespace testing

// Records the states that plugins came to, in order. Thread-safe.
class PluginEvents {
 public:
  void Add(const csi::PluginChange& change);
  // "<plugin> <state> <generation>"
  std::vector<std::string> All() const;
  // "added|removed|<state> <plugin> <type> <allocation>"
  std::vector<std::string> OfInstances() const;
  std::string LastReason() const;  // of the changes in All
  // False if `event`, of either kind, never came.
  bool Await(const std::string& event);
  void Forget();

 private:
  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::vector<std::string> events_;
  std::vector<std::string> instances_;
  std::vector<std::string> reasons_;
};

// Owns the whole core on fakes, put together as the daemon does it. The stores
// are in a directory and outlive Restart, which makes everything above them
// again.
class Core {
 public:
  static constexpr std::uint32_t kAgent = 1000;    // may do everything
  static constexpr std::uint32_t kOther = 1001;    // may do everything, too
  static constexpr std::uint32_t kAdmin = 1002;    // may only administer
  static constexpr std::uint32_t kNobody = 65534;  // no rule names this uid

  // Host volumes "data" and "logs" (read-only), the network "default" with
  // five addresses, and short pauses between probes.
  static Config DefaultConfig();

  // Makes each plan and RPC a step of `steps`, which must outlive this.
  explicit Core(Config with = DefaultConfig(), Steps* steps = nullptr);
  ~Core();

  // Ends mountd and starts it again, in the same boot, or in another boot with
  // nothing mounted. Forgets earlier events.
  void Restart(bool same_boot = true);
  Result<void> Recover();
  // Registers the plugin and waits until it is healthy.
  bool AddPlugin(const std::string& id, const std::string& type = "node");

  static CallContext By(std::uint32_t uid);

  const Config config;
  LiveConfig live_config{config};
  TempDirectory directory;
  PluginEvents events;
  // How often the networks asked to be checked again.
  std::atomic<int> checks = 0;
  std::chrono::milliseconds link_grace{0};  // applies from the next start
  // CLOCK_BOOTTIME and the wall clock of leases, in microseconds.
  std::atomic<std::uint64_t> boot_us = 1'000'000'000;
  std::atomic<std::uint64_t> wall_us = 1'700'000'000'000'000;
  UserDatabase user_database{};     // applies from the next start
  std::vector<std::string> scarce;  // networks, and their free addresses
  // Returns the conditions that volumes reported since the last call, as
  // "v1 abnormal: why".
  std::vector<std::string> TakeConditions() {
    const std::lock_guard lock(conditions_mutex_);
    return std::exchange(conditions_, {});
  }
  // Called when a network has been torn down.
  std::function<void(const NetworkRecord&)> gone = [](const NetworkRecord&) {};
  std::unique_ptr<exec::FakeExecutor> executor;
  std::unique_ptr<csi::FakeCsiClient> client;

 private:
  Steps* const steps_;
  std::unique_ptr<testing::SteppedExecutor> stepped_executor_;
  std::unique_ptr<testing::SteppedCsiClient> stepped_client_;

 public:
  std::unique_ptr<store::StateStore> state;
  std::unique_ptr<store::BootStore> boot;
  MountRoom room{10, 100};
  MountHealths healths;
  std::unique_ptr<Mounts> mounts;
  std::unique_ptr<Networks> networks;
  std::unique_ptr<csi::Plugins> plugins;
  std::unique_ptr<csi::Volumes> volumes;
  std::unique_ptr<csi::Controller> controller;
  std::unique_ptr<Services> services;

 private:
  void Start();

  std::mutex conditions_mutex_;
  std::vector<std::string> conditions_;  // conditions_mutex_
  int boots_ = 1;
};

// Returns `text`, which must be a valid name, as a Name.
Name NameOf(const std::string& text);

}  // namespace mountd
