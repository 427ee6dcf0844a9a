// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/unit/mountd/watch/network_watch_test.h"

#include <net/if.h>

#include <algorithm>

namespace mountd {
namespace {

using exec::NetworkWatchKind;
using Lines = std::vector<std::string>;

// ---- Links ----

TEST_F(NetworkWatchTest, ALinkThatGoesIsRepairedAndNoOther) {
  const NetworkStatus web = SetUpNetwork("web");
  SetUpNetwork("db");
  Start();
  core_.executor->TakeLink(netns::ToString(web.ipv4));
  SayOfLinks({LinkGoes(web.host_interface)});
  EXPECT_EQ(Told(), Lines{"web/eth0 repaired: link"});
  EXPECT_EQ(Count("RepairNetwork web"), 1U);
  EXPECT_EQ(Count("RepairNetwork"), 1U);
}

TEST_F(NetworkWatchTest, WhatComesTogetherIsLookedAtOnce) {
  const NetworkStatus web = SetUpNetwork("web");
  Start();
  core_.executor->TakeLink(netns::ToString(web.ipv4));
  SayOfLinks({NeighbourIs(NUD_STALE, web.ipv4), RouteGoes(web.ipv4),
              LinkGoes(web.host_interface)});
  EXPECT_EQ(Told(), Lines{"web/eth0 repaired: link"});
  EXPECT_EQ(Count("RepairNetwork"), 1U);
}

TEST_F(NetworkWatchTest, OfManyThatGoTogetherEachIsRepairedAndNoOther) {
  constexpr std::size_t kNetworks = 5;  // the range has no room for more
  std::vector<NetworkStatus> all;
  for (std::size_t i = 0; i < kNetworks; ++i) {
    all.push_back(SetUpNetwork("n" + std::to_string(i)));
  }
  Start();
  std::vector<NetlinkMessage> messages;
  Lines expected;
  for (std::size_t i = 0; i < kNetworks; i += 2) {
    core_.executor->TakeLink(netns::ToString(all[i].ipv4));
    messages.push_back(RouteGoes(all[i].ipv4));
    messages.push_back(LinkGoes(all[i].host_interface));
    expected.push_back("n" + std::to_string(i) + "/eth0 repaired: link");
  }
  SayOfLinks(messages);
  EXPECT_TRUE(loop_.RunUntil([&] { return Told().size() == expected.size(); }));
  Lines told = Told();
  std::sort(told.begin(), told.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(told, expected);
  EXPECT_EQ(Count("RepairNetwork"), expected.size());
}

TEST_F(NetworkWatchTest, ARouteOrANeighbourThatGoesHasItLookedAt) {
  const NetworkStatus web = SetUpNetwork("web");
  SetUpNetwork("db");
  Start();
  SayOfLinks({RouteGoes(web.ipv4)});
  EXPECT_EQ(Count("RepairNetwork web"), 1U);
  SayOfLinks({NeighbourIs(NUD_STALE, web.ipv4)});
  EXPECT_EQ(Count("RepairNetwork web"), 2U);
  SayOfLinks({LinkIs(web.host_interface, 0)});
  EXPECT_EQ(Count("RepairNetwork web"), 3U);
  EXPECT_EQ(Count("RepairNetwork"), 3U);
  EXPECT_TRUE(Told().empty()) << "all was right";
}

TEST_F(NetworkWatchTest, ALinkThatIsNotAsItWasMadeIsLookedAt) {
  const NetworkStatus web = SetUpNetwork("web");
  Start();
  SayOfLinks(
      {LinkIs(web.host_interface, IFF_UP | IFF_NOARP, {2, 0, 0, 0, 0, 9})});
  EXPECT_EQ(Count("RepairNetwork web"), 1U);
  SayOfLinks(
      {LinkIs(web.host_interface, IFF_UP | IFF_NOARP, netns::kGatewayMac, 0)});
  EXPECT_EQ(Count("RepairNetwork web"), 2U);
}

// A link can be renamed; its alias still names the allocation. Other links have
// aliases of their own.
TEST_F(NetworkWatchTest, ALinkOfAnotherNameIsLookedAtByItsAllocation) {
  SetUpNetwork("web");
  SetUpNetwork("db");
  Start();
  SayOfLinks({LinkIs("other0", IFF_UP).Put(IFLA_IFALIAS, "web"),
              LinkIs("other1", IFF_UP).Put(IFLA_IFALIAS, "the uplink")});
  EXPECT_EQ(Count("RepairNetwork web"), 1U);
  EXPECT_EQ(Count("RepairNetwork"), 1U);
}

// Every link is down and then up while the executor makes it.
TEST_F(NetworkWatchTest, ALinkThatIsDownAndThenUpIsNoChange) {
  const NetworkStatus web = SetUpNetwork("web");
  Start();
  SayOfLinks({LinkIs(web.host_interface, 0),
              LinkIs(web.host_interface, IFF_UP | IFF_NOARP),
              NeighbourIs(NUD_PERMANENT, web.ipv4)});
  EXPECT_EQ(core_.executor->script().calls(), Lines{});
}

TEST_F(NetworkWatchTest, WhatIsNotMountdsIsNoChange) {
  SetUpNetwork("web");
  Start();
  SayOfLinks({LinkGoes("eth0"), RouteGoes({192, 0, 2, 1}),
              LinkGoes("md0a0000ff"), AddressGoes({192, 0, 2, 1})});
  EXPECT_EQ(core_.executor->script().calls(), Lines{});
}

// The watch does not query the store for such an address, because neighbours
// of the LAN come and go.
TEST_F(NetworkWatchTest, AnAddressOutsideOfAllRangesIsNoChange) {
  SetUpNetwork("web");
  Start();
  NetworkRecord other = core_.boot->networks.NetworksOf("web").value().front();
  other.allocation = "gone";
  other.ipv4 = {192, 0, 2, 9};
  other.ipv6 = {};
  ASSERT_EQ(Outcome(core_.boot->networks.AddNetwork(other)), "Ok");
  ASSERT_EQ(Outcome(core_.boot->networks.SetNetworkState(other)), "Ok");
  SayOfLinks({NeighbourIs(NUD_STALE, other.ipv4), RouteGoes(other.ipv4)});
  EXPECT_EQ(core_.executor->script().calls(), Lines{});
  SayOfLinks({LinkGoes(netns::HostLinkName(other.ipv4))});
  EXPECT_EQ(Count("RepairNetwork gone"), 1U) << "a link of ours is one";
}

// Any program may make links whose names begin as mountd's do. Each record that
// the watch asks for in vain is one to read and decode.
TEST(NetworkKeysTest, OfALinkAreThoseOfItsNetworkAlone) {
  const auto of = [](const std::string& link) {
    netns::LinkEvents events;
    events.links = {link};
    return KeysOf(events);
  };
  const NetworkKeys none;
  EXPECT_EQ(of("mdev0"), none);
  EXPECT_EQ(of("md0123456789abcd"), none);
  EXPECT_EQ(of("md0a00000"), none);
  EXPECT_EQ(of(netns::HostLinkName({10, 0, 0, 2})),
            (NetworkKeys{{"10.0.0.2"}, false}));
  EXPECT_EQ(of(netns::HostLinkName({}, netns::ParseIpv6("fd00::2").value())),
            (NetworkKeys{{}, true}));
  netns::LinkEvents all;
  all.links = {"mdev0", netns::HostLinkName({10, 0, 0, 2})};
  all.allocations = {"web"};
  all.ipv6 = {netns::ParseIpv6("fd00::3").value()};
  EXPECT_EQ(KeysOf(all), (NetworkKeys{{"web", "fd00::3", "10.0.0.2"}, false}));
}

// The name of such a link does not say the address.
TEST_F(NetworkWatchTest, ALinkWithIpv6AloneIsLookedAt) {
  SetUpNetwork("web");
  Start();
  NetworkRecord six = core_.boot->networks.NetworksOf("web").value().front();
  six.allocation = "six";
  six.ipv4 = {};
  ASSERT_EQ(Outcome(core_.boot->networks.AddNetwork(six)), "Ok");
  ASSERT_EQ(Outcome(core_.boot->networks.SetNetworkState(six)), "Ok");
  SayOfLinks({LinkGoes(netns::HostLinkName({}, six.ipv6))});
  EXPECT_EQ(Count("RepairNetwork six"), 1U);
  EXPECT_EQ(Count("RepairNetwork web"), 0U);
}

TEST_F(NetworkWatchTest, TheHostsOwnAddressIsPutBack) {
  SetUpNetwork("web");
  Start();
  SayOfLinks({AddressGoes({10, 0, 0, 1})});
  EXPECT_EQ(core_.executor->script().calls(), Lines{"PrepareNetworks"});
}

TEST_F(NetworkWatchTest, AQuarantinedLinkThatGoesFreesItsAddressAtOnce) {
  const auto free = [&] {
    return core_.networks->GetUsage().at("default").free;
  };
  const std::uint32_t all = free();
  core_.executor->KeepLinks();
  const NetworkStatus gone = SetUpNetwork("gone");
  SetUpNetwork("web");
  ASSERT_EQ(Outcome(core_.networks->Teardown("gone", "eth0")), "Ok");
  watch_.Start();
  ASSERT_TRUE(loop_.RunUntil([&] { return Count("RepairNetwork web") == 1; }));
  AwaitWork();
  EXPECT_EQ(free(), all - 2);
  core_.executor->EndLinks();
  SayOfLinks({LinkGoes(gone.host_interface)});
  EXPECT_EQ(free(), all - 1);
  EXPECT_EQ(Told(), Lines{});
}

TEST_F(NetworkWatchTest, WhatMountdTakesAwayIsNoChange) {
  const NetworkStatus web = SetUpNetwork("web");
  Start();
  ASSERT_EQ(Outcome(core_.networks->Teardown("web", "eth0")), "Ok");
  core_.networks->ReapQuarantine();
  SayOfLinks({LinkGoes(web.host_interface), RouteGoes(web.ipv4)});
  EXPECT_EQ(Count("RepairNetwork"), 0U);
  EXPECT_EQ(Told(), Lines{});
}

TEST_F(NetworkWatchTest, WhatWentBeforeTheWatchWasThereIsRepaired) {
  const NetworkStatus web = SetUpNetwork("web");
  core_.executor->TakeLink(netns::ToString(web.ipv4));
  Start();
  EXPECT_EQ(Told(), Lines{"web/eth0 repaired: link"});
}

TEST_F(NetworkWatchTest, ALostNamespaceIsToldOnce) {
  const NetworkStatus web = SetUpNetwork("web");
  Start();
  core_.executor->TakeNamespace("web");
  SayOfLinks({LinkGoes(web.host_interface)});
  const Lines lost = {
      "web/eth0 lost: the allocation's namespace no longer exists; release the "
      "allocation"};
  EXPECT_EQ(Told(), lost);
  SayOfLinks({LinkGoes(web.host_interface)});
  EXPECT_EQ(Count("RepairNetwork web"), 2U);
  EXPECT_EQ(Told(), lost);
}

TEST_F(NetworkWatchTest, WhatAPluginMissesIsLost) {
  NetworkRequest spec;
  spec.mode = NetworkMode::kCni;
  spec.network = "net";
  for (const char* allocation : {"web", "well"}) {
    ASSERT_EQ(Outcome(core_.networks->Setup(allocation, spec)), "Ok");
  }
  core_.executor->BreakCni("web/eth0");
  Start();
  // The watch asks plugins on a strand of its own.
  const Lines lost = {"web/eth0 lost: plugin fake: it is gone"};
  EXPECT_TRUE(loop_.RunUntil([&] { return Told() == lost; }));
  // A network that mountd itself removes is not lost.
  ASSERT_EQ(Outcome(core_.networks->Teardown("well", "eth0")), "Ok");
  EXPECT_EQ(Told(), lost);
}

TEST_F(NetworkWatchTest, OneThatIsSetUpAnewAndLostAgainIsToldAgain) {
  const NetworkStatus web = SetUpNetwork("web");
  Start();
  core_.executor->TakeNamespace("web");
  SayOfLinks({LinkGoes(web.host_interface)});
  ASSERT_EQ(Outcome(core_.networks->Teardown("web", "eth0")), "Ok");
  core_.networks->ReapQuarantine();
  const NetworkStatus anew = SetUpNetwork("web");
  // The new namespace gets the old inode number, because the kernel gives the
  // first free number to the next namespace.
  NetworkRecord record = core_.boot->networks.NetworksOf("web").value().front();
  record.netns_inode = web.netns_inode;
  ASSERT_EQ(Outcome(core_.boot->networks.SetNetworkState(record)), "Ok");
  core_.executor->TakeNamespace("web");
  SayOfLinks({LinkGoes(anew.host_interface)});
  EXPECT_EQ(Told().size(), 2U);
}

// The kernel does not notify of the state that a killed executor left. The soak
// of networks found a port map that a flush had removed and that mountd never
// looked at again (seed 1602603459).
TEST_F(NetworkWatchTest, ARepairThatFailsIsTriedAgain) {
  const NetworkStatus web = SetUpNetwork("web");
  Start();
  core_.executor->TakeLink(netns::ToString(web.ipv4));
  core_.executor->script().FailNext(
      "RepairNetwork", MakeError(Code::kUnavailable, "repair", "web", "killed"),
      FailWhen::kBefore, 2);
  SayOfLinks({LinkGoes(web.host_interface)});
  EXPECT_EQ(Told(), Lines{});
  EXPECT_EQ(NextPause(), 1000);
  ASSERT_TRUE(loop_.RunUntil([&] { return Count("RepairNetwork") == 2; }));
  EXPECT_EQ(Told(), Lines{});
  EXPECT_EQ(NextPause(), 2000);
  EXPECT_TRUE(loop_.RunUntil(
      [&] { return Told() == Lines{"web/eth0 repaired: link"}; }));
}

// The pauses grow for all networks that fail, however many there are.
TEST_F(NetworkWatchTest, TheRetriesOfSeveralNetworksGrowRarer) {
  const NetworkStatus web = SetUpNetwork("web");
  const NetworkStatus db = SetUpNetwork("db");
  Start();
  core_.executor->script().FailNext(
      "RepairNetwork", MakeError(Code::kUnavailable, "repair", "web", "killed"),
      FailWhen::kBefore, 8);
  SayOfLinks({LinkGoes(web.host_interface), LinkGoes(db.host_interface)});
  AwaitWork();
  std::vector<long> pauses;
  for (std::size_t round = 2; round <= 4; ++round) {
    pauses.push_back(NextPause());
    ASSERT_TRUE(
        loop_.RunUntil([&] { return Count("RepairNetwork") == 2 * round; }));
    AwaitWork();
  }
  EXPECT_EQ(pauses, (std::vector<long>{1000, 2000, 4000}));
}

// An administrator may withdraw the network while an allocation is in it.
TEST_F(NetworkWatchTest, ARefusalIsNotTriedAgain) {
  const NetworkStatus web = SetUpNetwork("web");
  Start();
  core_.executor->FailNext("RepairNetwork", Code::kInvalidArgument);
  SayOfLinks({LinkGoes(web.host_interface)});
  AwaitWork();
  EXPECT_EQ(Count("RepairNetwork"), 1U);
  EXPECT_EQ(loop_.timer_count(), 0U);
}

TEST_F(NetworkWatchTest, WhatIsGoneByThenIsNotTriedAgain) {
  const NetworkStatus web = SetUpNetwork("web");
  const NetworkStatus db = SetUpNetwork("db");
  Start();
  core_.executor->TakeLink(netns::ToString(db.ipv4));
  core_.executor->script().FailNext(
      "RepairNetwork", MakeError(Code::kUnavailable, "repair", "web", "killed"),
      FailWhen::kBefore, 3);
  SayOfLinks({LinkGoes(web.host_interface), LinkGoes(db.host_interface)});
  ASSERT_EQ(Outcome(core_.networks->Teardown("web", web.interface)), "Ok");
  core_.executor->script().Forget();
  EXPECT_TRUE(UntilWithTimers(
      [&] { return Told() == Lines{"db/eth0 repaired: link"}; }));
  EXPECT_EQ(Count("RepairNetwork db"), 2U);
  EXPECT_EQ(Count("RepairNetwork web"), 0U);
}

// The host's addresses and the forward rules belong to no network.
TEST_F(NetworkWatchTest, WhatIsTheHostsIsTriedAgainToo) {
  Start();
  core_.executor->FailNext("PrepareNetworks", Code::kUnavailable);
  SayOfLinks({Ipv6AddressGoes(*netns::ParseIpv6("fd00::1"))});
  EXPECT_EQ(Count("PrepareNetworks"), 1U);
  EXPECT_TRUE(UntilWithTimers([&] { return Count("PrepareNetworks") == 2; }));
}

// ---- Namespaces ----

TEST_F(NetworkWatchTest, ANamespaceThatLosesItsNameIsLost) {
  SetupMode("web", NetworkMode::kNone);
  Pin("web");
  SetUpNetwork("db");
  Pin("db");
  Pin("others");
  Start();
  Unpin("web");
  Unpin("others");
  AwaitRead();
  EXPECT_EQ(core_.executor->script().calls(), Lines{"RepairNetwork web"});
  EXPECT_EQ(Told(), Lines{"web/lo lost: the allocation's namespace no longer "
                          "exists; release the allocation"});
  // rtnetlink reports nothing here, as when a process keeps a namespace and its
  // link. inotify alone reports the lost name.
  Unpin("db");
  AwaitRead();
  EXPECT_EQ(Told().size(), 2U);
}

TEST_F(NetworkWatchTest, ANamespaceThatMountdTakesAwayIsNoChange) {
  SetupMode("web", NetworkMode::kNone);
  Pin("web");
  Start();
  ASSERT_EQ(Outcome(core_.networks->Teardown("web", "lo")), "Ok");
  Unpin("web");
  AwaitRead();
  EXPECT_EQ(Count("RepairNetwork"), 0U);
  EXPECT_EQ(Told(), Lines{});
}

TEST_F(NetworkWatchTest, NamespacesAreLookedAtWhenAllIs) {
  SetupMode("web", NetworkMode::kNone);
  SetupMode("db", NetworkMode::kHost);
  core_.executor->TakeNamespace("web");
  watch_.Start();
  ASSERT_TRUE(loop_.RunUntil([&] { return Told().size() == 1; }));
  AwaitWork();
  // The watch looks at it once more, and reports the loss only once.
  SayOfRuleset({RuleGoes("mountd", "forward"), GenerationOf("nft")});
  EXPECT_EQ(Count("RepairNetwork web"), 2U);
  EXPECT_EQ(Count("RepairNetwork"), 2U);
  EXPECT_EQ(Told(), (Lines{"web/lo lost: the allocation's namespace no longer "
                           "exists; release the allocation",
                           "ruleset restored"}));
}

TEST_F(NetworkWatchTest, ADirectoryThatGoesIsWatchedAnewAndAllLookedAt) {
  SetupMode("web", NetworkMode::kNone);
  Start();
  ASSERT_TRUE(std::filesystem::remove(namespaces_));
  ASSERT_TRUE(loop_.RunUntil([&] { return loop_.timer_count() > 0; }));
  ASSERT_TRUE(std::filesystem::create_directory(namespaces_));
  core_.executor->TakeNamespace("web");
  ASSERT_TRUE(UntilWithTimers([&] { return Told().size() == 1; }));
  AwaitWork();
  SetupMode("db", NetworkMode::kNone);
  Pin("db");
  Unpin("db");
  AwaitRead();
  EXPECT_EQ(Told().size(), 2U);
}

// ---- The table ----

TEST_F(NetworkWatchTest, ATableThatOthersChangeIsLoadedAnewAndAllLookedAt) {
  SetUpNetwork("web");
  SetUpNetwork("db");
  Start();
  SayOfRuleset({RuleGoes("mountd", "forward"), GenerationOf("nft")});
  EXPECT_EQ(Count("PrepareNetworks anew"), 1U);
  EXPECT_EQ(Count("RepairNetwork web"), 1U);
  EXPECT_EQ(Count("RepairNetwork db"), 1U);
  EXPECT_EQ(Told(), Lines{"ruleset restored"});
}

TEST_F(NetworkWatchTest, WhatAnExecutorChangesIsNoChange) {
  SetUpNetwork("web");
  Start();
  SayOfRuleset({RuleGoes("mountd", "forward"), GenerationOf("mountd-exec")});
  // The watch does not count the executor's change as part of the next
  // transaction.
  SayOfRuleset({GenerationOf("nft")});
  EXPECT_EQ(core_.executor->script().calls(), Lines{});
}

TEST_F(NetworkWatchTest, OtherTablesAndTheOperatorsChainAreNoChange) {
  SetUpNetwork("web");
  Start();
  SayOfRuleset({RuleGoes("filter", "forward"), RuleGoes("mountd", "admin"),
                GenerationOf("nft")});
  EXPECT_EQ(core_.executor->script().calls(), Lines{});
}

// The messages of one transaction may come with two reads. The watch learns
// from the last message whether mountd-exec made the change.
TEST_F(NetworkWatchTest, AChangeIsRememberedUntilItIsSaidWhoseItIs) {
  Start();
  SayOfRuleset({RuleGoes("mountd", "forward")});
  EXPECT_EQ(core_.executor->script().calls(), Lines{});
  SayOfRuleset({GenerationOf("nft")});
  EXPECT_EQ(Count("PrepareNetworks anew"), 1U);
}

TEST_F(NetworkWatchTest, ATableThatCannotBeLoadedIsTriedAgain) {
  SetUpNetwork("web");
  Start();
  core_.executor->FailNext("PrepareNetworks", Code::kUnavailable);
  SayOfRuleset({RuleGoes("mountd", "forward"), GenerationOf("nft")});
  EXPECT_EQ(Told(), Lines{});
  EXPECT_EQ(Count("RepairNetwork"), 0U);
  EXPECT_TRUE(UntilWithTimers([&] { return Told().size() == 1; }));
  EXPECT_EQ(Count("PrepareNetworks anew"), 2U);
}

// ---- The sockets ----

TEST_F(NetworkWatchTest, ABrokenWatchOfLinksIsArmedAnewAndAllLookedAt) {
  const NetworkStatus web = SetUpNetwork("web");
  Start();
  core_.executor->BreakNetworkWatch(NetworkWatchKind::kLinks);
  core_.executor->TakeLink(netns::ToString(web.ipv4));
  ASSERT_TRUE(UntilWithTimers([&] { return !Told().empty(); }));
  EXPECT_EQ(Told(), Lines{"web/eth0 repaired: link"});
  EXPECT_EQ(Count("WatchNetworks"), 1U);
  AwaitWork();
  core_.executor->TakeLink(netns::ToString(web.ipv4));
  SayOfLinks({LinkGoes(web.host_interface)});
  EXPECT_EQ(Told().size(), 2U);
}

TEST_F(NetworkWatchTest, ABrokenWatchOfTheTableIsArmedAnewAndItIsRestored) {
  SetUpNetwork("web");
  Start();
  core_.executor->BreakNetworkWatch(NetworkWatchKind::kRuleset);
  ASSERT_TRUE(UntilWithTimers([&] { return Count("WatchNetworks") == 1; }));
  ASSERT_TRUE(UntilWithTimers([&] { return Told().size() == 1; }));
  EXPECT_EQ(Told(), Lines{"ruleset restored"}) << "what came meanwhile";
  AwaitWork();
  core_.executor->script().Forget();
  SayOfRuleset({RuleGoes("mountd", "forward"), GenerationOf("nft")});
  EXPECT_EQ(Count("PrepareNetworks anew"), 1U);
}

TEST_F(NetworkWatchTest, AWatchThatCannotBeArmedIsTriedAgain) {
  const NetworkStatus web = SetUpNetwork("web");
  core_.executor->FailNext("WatchNetworks", Code::kUnavailable,
                           FailWhen::kBefore, 3);
  watch_.Start();
  ASSERT_TRUE(UntilWithTimers([&] {
    return Count("WatchNetworks") == 5 && Count("RepairNetwork") >= 1;
  }));
  AwaitWork();
  core_.executor->TakeLink(netns::ToString(web.ipv4));
  SayOfLinks({LinkGoes(web.host_interface)});
  EXPECT_EQ(Told().back(), "web/eth0 repaired: link");
}

TEST(RepairTextTest, NamesWhatWasPutRight) {
  EXPECT_EQ(RepairText(0), "");
  EXPECT_EQ(RepairText(exec::kRepairedLink), "link");
  EXPECT_EQ(RepairText(exec::kRepairedHostEnd | exec::kRepairedInside),
            "host-end+inside");
  EXPECT_EQ(RepairText(exec::kRepairedLink | exec::kRepairedHostEnd |
                       exec::kRepairedInside | exec::kRepairedElements),
            "link+host-end+inside+elements");
}

}  // namespace
}  // namespace mountd
