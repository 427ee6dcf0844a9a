// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Tests NetworkWatch where it misses events, or cannot look.
#include <algorithm>
#include <functional>
#include <future>
#include <optional>
#include <utility>

#include "tests/support/fakes/failing_store.h"
#include "tests/unit/mountd/watch/network_watch_test.h"

namespace mountd {
namespace {

using exec::NetworkWatchKind;
using Lines = std::vector<std::string>;

class NetworkWatchFailuresTest : public NetworkWatchTest {
 protected:
  using NetworkWatchTest::NetworkWatchTest;

  void SetupCni(const std::string& allocation) {
    NetworkRequest spec;
    spec.mode = NetworkMode::kCni;
    spec.network = "net";
    ASSERT_EQ(Outcome(core_.networks->Setup(allocation, spec)), "Ok");
  }
  NetworkRecord RecordOf(const std::string& allocation) {
    return core_.boot->networks.NetworksOf(allocation).value().front();
  }
  store::Database& database() { return core_.boot->database(); }
  // Makes the watch compare everything and ask the CNI plugins, as at the
  // start.
  void Compare() {
    SayOfRuleset({RuleGoes("mountd", "forward"), GenerationOf("nft")});
  }
  // Reports the messages, and returns when the watch has read them and queued
  // its jobs on the allocations' strands.
  void SayWithoutWaiting(NetworkWatchKind kind,
                         const std::vector<NetlinkMessage>& messages) {
    for (const NetlinkMessage& message : messages) {
      core_.executor->TellNetworks(kind, message.Bytes());
    }
    ASSERT_TRUE(loop_.RunUntil([&] { return loop_.timer_count() > 0; }));
    loop_.FireTimers();
    AwaitStrand("network watch");
  }
  void AwaitChecks() { AwaitStrand("cni-check"); }
};

// ---- Events ----

TEST_F(NetworkWatchFailuresTest, WhatIsToldOfIpv6AloneCounts) {
  const NetworkStatus web = SetUpNetwork("web");
  SetUpNetwork("db");
  Start();
  SayOfLinks({Ipv6RouteGoes(web.ipv6)});
  EXPECT_EQ(core_.executor->script().calls(), Lines{"RepairNetwork web"});
  core_.executor->script().Forget();
  SayOfLinks({Ipv6AddressGoes(*netns::ParseIpv6("fd00::1"))});
  EXPECT_EQ(core_.executor->script().calls(), Lines{"PrepareNetworks"});
  core_.executor->script().Forget();
  SayOfLinks({Ipv6RouteGoes(*netns::ParseIpv6("2001:db8::1"))});
  EXPECT_EQ(core_.executor->script().calls(), Lines{});
}

TEST_F(NetworkWatchFailuresTest, WhatWasMissedIsLookedFor) {
  const NetworkStatus web = SetUpNetwork("web");
  core_.executor->OverflowNetworkWatches();
  Start();
  ASSERT_EQ(Told(), Lines{});
  core_.executor->TakeLink(netns::ToString(web.ipv4));
  ASSERT_TRUE(UntilWithTimers([&] {
    return Count("RepairNetwork web") >= 2 &&
           Count("PrepareNetworks anew") == 1;
  }));
  AwaitWork();
  const auto told = Told();
  EXPECT_EQ(std::count(told.begin(), told.end(), "web/eth0 repaired: link"), 1);
  EXPECT_EQ(std::count(told.begin(), told.end(), "ruleset restored"), 1);
}

TEST_F(NetworkWatchFailuresTest, AnotherTablesForwardRulesAreNobodysConcern) {
  Start();
  SayOfRuleset({RuleGoes("filter", "FORWARD"), GenerationOf("iptables")});
  EXPECT_EQ(core_.executor->script().calls(), Lines{});
}

class ForwardRulesWatchTest : public NetworkWatchFailuresTest {
 protected:
  ForwardRulesWatchTest() : NetworkWatchFailuresTest(true) {}
};

TEST_F(ForwardRulesWatchTest, RulesThatAreToBeKeptInItArePutBack) {
  SetUpNetwork("web");
  Start();
  SayOfRuleset({RuleGoes("filter", "FORWARD"), GenerationOf("iptables")});
  // The watch leaves mountd's own table and the networks alone, because nobody
  // changed them.
  EXPECT_EQ(core_.executor->script().calls(), Lines{"PrepareNetworks"});
  core_.executor->script().Forget();
  SayOfRuleset({RuleGoes("filter", "FORWARD"), GenerationOf("mountd-exec")});
  EXPECT_EQ(core_.executor->script().calls(), Lines{});
}

// ---- Watches that fail ----

TEST_F(NetworkWatchFailuresTest, AnFdThatTheLoopRefusesIsOpenedAnew) {
  const NetworkStatus web = SetUpNetwork("web");
  loop_.RefuseFds(3);
  watch_.Start();
  ASSERT_TRUE(loop_.RunUntil([&] { return loop_.timer_count() == 3; }));
  EXPECT_EQ(Count("WatchNetworks"), 2U);
  loop_.FireTimers();
  // Each of the three watches looks at all that it may have missed. The watch
  // of links did so before, too.
  ASSERT_TRUE(loop_.RunUntil([&] { return Count("RepairNetwork web") == 4; }));
  EXPECT_EQ(Count("WatchNetworks"), 4U);
  AwaitWork();
  core_.executor->TakeLink(netns::ToString(web.ipv4));
  SayOfLinks({LinkGoes(web.host_interface)});
  EXPECT_EQ(Told(), (Lines{"ruleset restored", "web/eth0 repaired: link"}));
}

TEST_F(NetworkWatchFailuresTest, ADirectoryThatIsNotThereYetIsTriedAgain) {
  ASSERT_TRUE(std::filesystem::remove(namespaces_));
  Start();
  ASSERT_EQ(loop_.timer_count(), 1U);
  SetupMode("web", NetworkMode::kNone);
  ASSERT_TRUE(std::filesystem::create_directory(namespaces_));
  Pin("web");
  // The watch looks at every namespace now, because one may have lost its name
  // meanwhile.
  ASSERT_TRUE(UntilWithTimers([&] { return Count("RepairNetwork web") == 1; }));
  AwaitWork();
  Unpin("web");
  AwaitRead();
  EXPECT_EQ(Told(), Lines{"web/lo lost: the allocation's namespace no longer "
                          "exists; release the allocation"});
}

// ---- Looks that fail ----

TEST_F(NetworkWatchFailuresTest, AStoreThatCannotBeReadIsAskedAgain) {
  const NetworkStatus web = SetUpNetwork("web");
  Start();
  core_.executor->TakeLink(netns::ToString(web.ipv4));
  {
    const LockedTable networks(database(), "networks");
    const LockedTable quarantine(database(), "quarantine");
    SayOfLinks({LinkGoes(web.host_interface)});
  }
  EXPECT_EQ(core_.executor->script().calls(), Lines{});
  EXPECT_TRUE(UntilWithTimers(
      [&] { return Told() == Lines{"web/eth0 repaired: link"}; }));
}

TEST_F(NetworkWatchFailuresTest, OfSeveralNetworksEachIsRepairedByItself) {
  NetworkRequest namespace_alone;
  namespace_alone.mode = NetworkMode::kNone;
  ASSERT_EQ(Outcome(core_.networks->Setup("web", namespace_alone)), "Ok");
  const NetworkStatus web = SetUpNetwork("web");
  Start();
  core_.executor->TakeLink(netns::ToString(web.ipv4));
  SayOfLinks({LinkGoes(web.host_interface)});
  EXPECT_EQ(Told(), Lines{"web/eth0 repaired: link"});
  EXPECT_EQ(Count("RepairNetwork"), 1U);
}

// The watch looks at a network on its allocation's strand, after the jobs that
// were there before.
TEST_F(NetworkWatchFailuresTest, WhatIsNotThereAnyMoreIsNotRepaired) {
  const NetworkStatus web = SetUpNetwork("web");
  Start();
  const auto look_while = [&](const std::function<void()>& change) {
    core_.executor->script().Block("RepairNetwork");
    SayWithoutWaiting(NetworkWatchKind::kLinks, {LinkGoes(web.host_interface)});
    ASSERT_TRUE(core_.executor->script().AwaitBlocked("RepairNetwork"));
    // The strand is busy, so the second look waits in its queue.
    SayWithoutWaiting(NetworkWatchKind::kLinks, {LinkGoes(web.host_interface)});
    change();
    core_.executor->script().Unblock("RepairNetwork");
    AwaitWork();
  };
  look_while([] {});
  EXPECT_EQ(Count("RepairNetwork"), 2U);
  std::optional<LockedTable> locked;
  look_while([&] { locked.emplace(database(), "networks"); });
  EXPECT_EQ(Count("RepairNetwork"), 3U);
  locked.reset();
  // A record that cannot be read says nothing, so the watch looks again.
  EXPECT_EQ(NextPause(), 1000);
  ASSERT_TRUE(loop_.RunUntil([&] { return Count("RepairNetwork") == 4; }));
  AwaitWork();
  look_while([&] {
    NetworkRecord record = RecordOf("web");
    record.state = NetworkRecordState::kDeleting;
    ASSERT_EQ(Outcome(core_.boot->networks.SetNetworkState(record)), "Ok");
  });
  EXPECT_EQ(Count("RepairNetwork"), 5U);
}

TEST_F(NetworkWatchFailuresTest, WhatHasTheHostsNamespaceByThenIsNotLost) {
  const NetworkStatus web = SetupMode("web", NetworkMode::kNone);
  Start();
  std::promise<void> made_anew;
  strands_->Submit(AllocationStrand("web"),
                   [until = made_anew.get_future().share()] { until.wait(); });
  SayWithoutWaiting(NetworkWatchKind::kRuleset,
                    {RuleGoes("mountd", "forward"), GenerationOf("nft")});
  AwaitStrand("network watch");
  ASSERT_EQ(Outcome(core_.networks->Teardown("web", web.interface)), "Ok");
  SetupMode("web", NetworkMode::kHost);
  made_anew.set_value();
  AwaitWork();
  EXPECT_EQ(Told(), Lines{"ruleset restored"});
}

TEST_F(NetworkWatchFailuresTest, ACheckThatFailsSaysNothingOfTheNetwork) {
  SetupCni("web");
  core_.executor->BreakCni("web/eth0");
  core_.executor->FailNext("RunCni", Code::kUnavailable);
  Start();
  AwaitChecks();
  EXPECT_EQ(Told(), Lines{});
  Compare();
  AwaitChecks();
  EXPECT_EQ(Told(), (Lines{"ruleset restored",
                           "web/eth0 lost: plugin fake: it is gone"}));
}

// A check takes long, and the agent may remove and set up the network
// meanwhile.
TEST_F(NetworkWatchFailuresTest, WhatIsAnotherByThenIsNotLost) {
  using Change = void (*)(store::BootStore&, NetworkRecord);
  const Change changes[] = {
      [](store::BootStore& store, NetworkRecord record) {
        ASSERT_EQ(Outcome(store.networks.RemoveNetwork(record)), "Ok");
      },
      [](store::BootStore& store, NetworkRecord record) {
        ASSERT_EQ(Outcome(store.networks.RemoveNetwork(record)), "Ok");
        record.network = "another";
        ASSERT_EQ(Outcome(store.networks.AddNetwork(record)), "Ok");
        ASSERT_EQ(Outcome(store.networks.SetNetworkState(record)), "Ok");
      },
      [](store::BootStore& store, NetworkRecord record) {
        record.netns_inode += 1;
        ASSERT_EQ(Outcome(store.networks.SetNetworkState(record)), "Ok");
      },
      [](store::BootStore& store, NetworkRecord record) {
        record.cni_result.mac = "0a:00:00:00:00:99";
        ASSERT_EQ(Outcome(store.networks.SetNetworkState(record)), "Ok");
      },
  };
  SetupCni("web");
  const NetworkRecord record = RecordOf("web");
  core_.executor->BreakCni("web/eth0");
  bool started = false;
  for (const Change change : changes) {
    core_.executor->script().Block("RunCni");
    if (!std::exchange(started, true)) {
      Start();
    } else {
      Compare();
    }
    ASSERT_TRUE(core_.executor->script().AwaitBlocked("RunCni"));
    change(*core_.boot, record);
    core_.executor->script().Unblock("RunCni");
    AwaitChecks();
    IgnoreBecauseBestEffort(core_.boot->networks.RemoveNetwork(record));
    ASSERT_EQ(Outcome(core_.boot->networks.AddNetwork(record)), "Ok");
    ASSERT_EQ(Outcome(core_.boot->networks.SetNetworkState(record)), "Ok");
  }
  const auto told = Told();
  EXPECT_EQ(std::count(told.begin(), told.end(), "ruleset restored"),
            static_cast<std::ptrdiff_t>(told.size()));
  Compare();
  AwaitChecks();
  EXPECT_EQ(Told().back(), "web/eth0 lost: plugin fake: it is gone");
}

TEST_F(NetworkWatchFailuresTest, WhatWentBeforeItsTurnIsNotChecked) {
  SetupCni("db");
  SetupCni("web");
  core_.executor->script().Forget();
  core_.executor->script().Block("RunCni");
  Start();
  ASSERT_TRUE(core_.executor->script().AwaitBlocked("RunCni"));
  // The watch checks networks one after the other, in the store's order.
  ASSERT_EQ(Outcome(core_.boot->networks.RemoveNetwork(RecordOf("web"))), "Ok");
  core_.executor->script().Unblock("RunCni");
  AwaitChecks();
  EXPECT_EQ(Count("RunCni check web/eth0"), 0U);
  EXPECT_EQ(Told(), Lines{});
}

}  // namespace
}  // namespace mountd
