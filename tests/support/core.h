// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mountd/base/steps.h"
#include "mountd/service.h"
#include "mountd/store/boot_store.h"
#include "tests/support/fake_csi_client.h"
#include "tests/support/fake_executor.h"
#include "tests/support/temp_directory.h"

namespace mountd {

namespace testing {
class SteppedCsiClient;
class SteppedExecutor;
}  // namespace testing

// What plugins became, in order. Thread-safe.
class PluginEvents {
 public:
  void Add(const csi::PluginChange& change);
  // "<plugin> <state> <generation>"
  std::vector<std::string> All() const;
  // "added|removed|<state> <plugin> <type> <allocation>"
  std::vector<std::string> OfInstances() const;
  std::string LastReason() const;  // of those in All
  // False: `event`, of either kind, never came.
  bool Await(const std::string& event);
  void Forget();

 private:
  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::vector<std::string> events_;
  std::vector<std::string> instances_;
  std::vector<std::string> reasons_;
};

// The whole core on fakes, as the daemon puts it together: the stores in a
// directory, and everything above them, which Restart makes anew.
class Core {
 public:
  static constexpr std::uint32_t kAgent = 1000;    // may do everything
  static constexpr std::uint32_t kOther = 1001;    // so may this one
  static constexpr std::uint32_t kAdmin = 1002;    // may only administer
  static constexpr std::uint32_t kNobody = 65534;  // no rule names it

  // Host volumes "data" and "logs" (read-only), the network "default" with
  // five addresses, and short pauses between probes.
  static Config DefaultConfig();

  // `steps`: whose each plan and RPC is one, and who outlives it.
  explicit Core(Config with = DefaultConfig(), Steps* steps = nullptr);
  ~Core();

  // mountd ends and starts again: `same_boot` or with nothing left mounted.
  // Earlier events are forgotten.
  void Restart(bool same_boot = true);
  Result<void> Recover();
  // Registers and waits until it is healthy.
  bool AddPlugin(const std::string& id, const std::string& type = "node");

  static CallContext By(std::uint32_t uid);

  const Config config;
  LiveConfig live_config{config};
  TempDirectory directory;
  PluginEvents events;
  std::atomic<int> checks = 0;
  std::chrono::milliseconds link_grace{0};  // from the next start
  std::vector<std::string> scarce;  // networks, and how many are free  // times
                                    // the networks asked to be checked again
  // A network is torn down.
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
  std::unique_ptr<Service> service;

 private:
  void Start();

  int boots_ = 1;
};

// A Name from text that is one.
Name NameOf(const std::string& text);

}  // namespace mountd
