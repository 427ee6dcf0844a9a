// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mountd/service/teardowns.h"
#include "mountd/watch/network_watch.h"
#include "tests/support/fakes/core.h"
#include "tests/support/fakes/manual_loop.h"
#include "tests/support/netlink_messages.h"
#include "tests/support/outcome.h"
#include "tests/support/temp_directory.h"

namespace mountd {

class NetworkWatchTest : public ::testing::Test {
 protected:
  explicit NetworkWatchTest(bool forward_rules = false)
      : watch_({loop_, *strands_, *core_.executor, *core_.boot, *core_.networks,
                forward_rules, namespaces_},
               {[this](const NetworkRecord& record, const std::string& what) {
                  Tell(record.allocation + "/" + record.interface +
                       " repaired: " + what);
                },
                [this](const NetworkRecord& record, const std::string& reason) {
                  Tell(record.allocation + "/" + record.interface +
                       " lost: " + reason);
                },
                [this] { Tell("ruleset restored"); }}) {
    std::filesystem::create_directory(namespaces_);
    core_.gone = [this](const NetworkRecord& record) { watch_.Forget(record); };
  }
  ~NetworkWatchTest() override {
    // The strands end first, because their jobs use the watch.
    strands_.reset();
    pool_.reset();
    quick_.reset();
  }

  NetworkStatus SetUpNetwork(const std::string& allocation) {
    const auto made = core_.networks->Setup(allocation, {});
    EXPECT_EQ(MessageOf(made), "Ok");
    return made ? *made : NetworkStatus{};
  }
  NetworkStatus SetupMode(const std::string& allocation, NetworkMode mode) {
    NetworkRequest spec;
    spec.mode = mode;
    const auto made = core_.networks->Setup(allocation, spec);
    EXPECT_EQ(MessageOf(made), "Ok");
    return made ? *made : NetworkStatus{};
  }
  // Make the file that a namespace is pinned on, and remove the namespace with
  // its file.
  void Pin(const std::string& allocation) {
    std::ofstream(namespaces_ + "/" + allocation) << "";
  }
  void Unpin(const std::string& allocation) {
    core_.executor->TakeNamespace(allocation);
    ASSERT_TRUE(std::filesystem::remove(namespaces_ + "/" + allocation));
  }
  std::size_t Count(const std::string& call) {
    return core_.executor->script().Count(call);
  }
  std::vector<std::string> Told() const {
    const std::lock_guard lock(mutex_);
    return told_;
  }
  void Tell(const std::string& line) {
    const std::lock_guard lock(mutex_);
    told_.push_back(line);
  }
  bool UntilWithTimers(const std::function<bool()>& condition) {
    return loop_.RunUntil([&] {
      loop_.FireTimers();
      return condition();
    });
  }
  // Ends the pause before the next retry, and returns its length in
  // milliseconds.
  long NextPause() {
    if (!loop_.RunUntil([&] { return loop_.timer_count() > 0; })) {
      return 0;
    }
    return loop_.FireTimers().front().count();
  }
  // Starts the watch, and waits until it has looked at everything once. The
  // script counts calls from then on.
  void Start() {
    watch_.Start();
    const std::size_t networks =
        core_.boot->networks.ListNetworks().value().size();
    ASSERT_TRUE(loop_.RunUntil([&] {
      return Count("WatchNetworks") == 2 && Count("PrepareNetworks") == 1 &&
             Count("RepairNetwork") == networks;
    }));
    AwaitWork();
    core_.executor->script().Forget();
  }
  // Reports all messages at once. Returns when the watch has read them and done
  // all that follows.
  void Say(exec::NetworkWatchKind kind,
           const std::vector<NetlinkMessage>& messages) {
    ASSERT_EQ(loop_.timer_count(), 0U);
    for (const NetlinkMessage& message : messages) {
      core_.executor->TellNetworks(kind, message.Bytes());
    }
    AwaitRead();
  }
  void AwaitRead() {
    ASSERT_TRUE(loop_.RunUntil([&] { return loop_.timer_count() > 0; }));
    EXPECT_EQ(loop_.FireTimers().front().count(), 50);
    AwaitWork();
  }
  void SayOfLinks(const std::vector<NetlinkMessage>& messages) {
    Say(exec::NetworkWatchKind::kLinks, messages);
  }
  void SayOfRuleset(const std::vector<NetlinkMessage>& messages) {
    Say(exec::NetworkWatchKind::kRuleset, messages);
  }
  // Waits twice for the watch's strand, because a job that restores the table
  // queues one there that looks. Then it waits for the allocations' strands,
  // where the looks have queued repairs. At the end it waits for the list of
  // the failed repairs: the loop asks for it, a quick job makes it, and the
  // loop sets the timer.
  void AwaitWork() {
    AwaitStrand("network watch");
    AwaitStrand("network watch");
    for (const char* allocation : {"db", "gone", "web"}) {
      AwaitStrand(AllocationStrand(allocation));
    }
    AwaitPosted();
    AwaitStrand("");
    AwaitPosted();
  }
  void AwaitPosted() {
    bool done = false;
    loop_.Post([&done] { done = true; });
    ASSERT_TRUE(loop_.RunUntil([&] { return done; }));
  }
  void AwaitStrand(const std::string& key) {
    auto done = std::make_shared<std::atomic<bool>>(false);
    strands_->Submit(key, [done] { *done = true; });
    ASSERT_TRUE(loop_.RunUntil([&] { return done->load(); }));
  }

  Core core_;
  const TempDirectory directory_;
  const std::string namespaces_ = directory_.File("netns");
  ManualLoop loop_;
  std::unique_ptr<WorkerPool> pool_ = std::make_unique<WorkerPool>(4);
  // One thread keeps the jobs without a key in order.
  std::unique_ptr<WorkerPool> quick_ = std::make_unique<WorkerPool>(1);
  std::unique_ptr<Strands> strands_ =
      std::make_unique<Strands>(*pool_, quick_.get());
  mutable std::mutex mutex_;
  std::vector<std::string> told_;
  NetworkWatch watch_;
};

}  // namespace mountd
