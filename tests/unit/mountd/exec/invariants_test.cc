// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/exec/invariants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "mountd/plan/request_size.h"
#include "mountd/plan/wire.h"

namespace mountd::exec {
namespace {

Config TestConfig() {
  Config config;
  NetworkConfig network;
  network.ipv4 = {netns::ParseIpv4Range("10.88.0.0/24").value()};
  network.ipv6 = {netns::ParseIpv6Range("fd88::/120").value()};
  config.networks["default"] = network;
  RuleConfig rule;
  rule.host_ports = {{8080, 8090}, {443, 443}};
  rule.ids = {{1000, 1099}, {7, 7}};
  config.rules = {RuleConfig{}, rule};
  return config;
}

Request NetworkRequest() {
  Request request;
  request.kind = PlanKind::kCreateNetwork;
  request.body.network = NetworkPlan{};
  NetworkPlan& plan = request.body.network;
  plan.allocation = ToWire("web");
  plan.network = ToWire("default");
  plan.interface = {"eth0"};
  plan.ipv4 = {10, 88, 0, 2};
  plan.ipv6 = netns::ParseIpv6("fd88::2").value();
  plan.port_count = 1;
  plan.ports[0] = {8080, 80, kTcp, 0};
  return request;
}

Request AttachRequest() {
  Request request;
  request.kind = PlanKind::kAttach;
  request.body.attach = AttachPlan{};
  request.body.attach.target = Target("web", "app", "data");
  request.body.attach.source.host_volume = ToWire("data");
  return request;
}

Request TmpfsRequest() {
  Request request = AttachRequest();
  request.body.attach.source.kind = SourceKind::kTmpfs;
  request.body.attach.source.tmpfs = {1U << 20U, 1024, 0700, 1000, 1000, 1};
  return request;
}

PortMap At(std::uint16_t host_port) { return {host_port, 80, kTcp, 0}; }

bool Passes(const Request& request) {
  const Result<void> checked = CheckRequest(request, TestConfig());
  EXPECT_TRUE(checked || checked.error().code == Code::kInvalidArgument);
  return checked.has_value();
}

TEST(Invariants, AcceptsWhatMountdSends) {
  EXPECT_TRUE(Passes(NetworkRequest()));
  EXPECT_TRUE(Passes(AttachRequest()));
  EXPECT_TRUE(Passes(TmpfsRequest()));
  EXPECT_TRUE(Passes(Request{}));
}

bool IsDecoded(std::span<const std::byte> message) {
  Request request;
  return DecodeRequest(message, &request).has_value();
}

TEST(Invariants, RefusesAMessageOfAnotherSizeOrVersion) {
  Request request;
  const auto bytes = std::as_bytes(std::span(&request, 1));
  EXPECT_TRUE(IsDecoded(bytes));
  EXPECT_FALSE(IsDecoded(bytes.first(bytes.size() - 1)));
  EXPECT_FALSE(IsDecoded({}));
  std::vector<std::byte> longer(bytes.begin(), bytes.end());
  longer.push_back(std::byte{0});
  EXPECT_FALSE(IsDecoded(longer));
  request.version = kProtocolVersion + 1;
  EXPECT_FALSE(IsDecoded(bytes));
}

TEST(Invariants, AMessagesKindIsKnownBeforeItIsDecoded) {
  Request request;
  request.kind = PlanKind::kRunCni;
  const auto bytes = std::as_bytes(std::span(&request, 1));
  EXPECT_EQ(KindOf(bytes), PlanKind::kRunCni);
  EXPECT_EQ(KindOf(bytes.first(7)), PlanKind::kHello);
  EXPECT_EQ(KindOf({}), PlanKind::kHello);
}

// A span without a trace would be logged as a trace of zeros.
TEST(Invariants, ATraceHasBothIdsOrNone) {
  for (Request request : {Request{}, AttachRequest(), NetworkRequest()}) {
    request.trace.trace_id = {1};
    EXPECT_FALSE(Passes(request));
    request.trace.span_id[7] = 1;
    EXPECT_TRUE(Passes(request));
    request.trace.trace_id = {};
    EXPECT_FALSE(Passes(request));
  }
}

TEST(Invariants, AMessagesTraceIsThatOfAWholeMessage) {
  Request request;
  request.trace.trace_id = {1};
  request.trace.span_id = {2};
  const auto bytes = std::as_bytes(std::span(&request, 1));
  EXPECT_EQ(TraceOf(bytes), request.trace);
  EXPECT_EQ(TraceOf(bytes.first(bytes.size() - 1)), PlanTrace());
  EXPECT_EQ(TraceOf({}), PlanTrace());
}

TEST(Invariants, ChecksPlansOnTrees) {
  Request request;
  request.kind = PlanKind::kChownTree;
  request.body.tree = TreePlan{};
  TreePlan& plan = request.body.tree;
  constexpr auto kMost = static_cast<std::uint32_t>(CallerPlan().gids.size());
  EXPECT_FALSE(Passes(request));
  plan.caller.gid_count = kMost;
  EXPECT_TRUE(Passes(request));
  plan.depth = kMaxTreeDepth;
  EXPECT_TRUE(Passes(request));
  plan.depth = kMaxTreeDepth + 1;
  EXPECT_FALSE(Passes(request));
  plan.depth = 0;
  plan.gid = UINT32_MAX;
  EXPECT_FALSE(Passes(request));
  request.kind = PlanKind::kRemoveTree;
  EXPECT_TRUE(Passes(request));
  plan.caller.gid_count = kMost + 1;
  EXPECT_FALSE(Passes(request));
}

TEST(Invariants, TakesJustTheFdsOfThePlan) {
  Request request;
  EXPECT_TRUE(CheckFds(request, 0).has_value());
  EXPECT_FALSE(CheckFds(request, 1).has_value());
  request.kind = PlanKind::kRemoveTree;
  EXPECT_TRUE(CheckFds(request, 1).has_value());
  EXPECT_FALSE(CheckFds(request, 0).has_value());
  EXPECT_FALSE(CheckFds(request, 2).has_value());
  request = NetworkRequest();
  request.body.network.has_keeper = 1;
  EXPECT_TRUE(CheckFds(request, 1).has_value());
  EXPECT_FALSE(CheckFds(request, 0).has_value());
  request.body.network.origin = NamespaceOrigin::kGiven;
  EXPECT_TRUE(CheckFds(request, 2).has_value());
  request.kind = PlanKind::kCheckHostPorts;
  EXPECT_TRUE(CheckFds(request, 1).has_value());
}

TEST(Invariants, RefusesAnUnknownKind) {
  Request request;
  for (const std::uint32_t kind : {0U, 2U, 17U, 99U, 0xFFFFFFFFU}) {
    request.kind = static_cast<PlanKind>(kind);
    EXPECT_FALSE(Passes(request)) << kind;
  }
}

TEST(Invariants, RefusesNamesThatAreNoComponent) {
  for (const char* name : {"", ".", "..", "a/b", "/", "a b", "a\n", "../x"}) {
    Request request = AttachRequest();
    request.body.attach.target.name = ToWire(name);
    EXPECT_FALSE(Passes(request)) << name;
    request = AttachRequest();
    request.body.attach.target.task = ToWire(name);
    EXPECT_FALSE(Passes(request)) << name;
    request = AttachRequest();
    request.body.attach.target.allocation = ToWire(name);
    EXPECT_FALSE(Passes(request)) << name;
    request = AttachRequest();
    request.body.attach.source.host_volume = ToWire(name);
    EXPECT_FALSE(Passes(request)) << name;
  }
}

TEST(Invariants, RefusesANameWithANulOrTooLong) {
  Request request = AttachRequest();
  request.body.attach.target.name.bytes[1] = '\0';
  EXPECT_FALSE(Passes(request));
  request = AttachRequest();
  request.body.attach.target.name.bytes.fill('a');
  request.body.attach.target.name.size = 128;
  EXPECT_TRUE(Passes(request));
  request.body.attach.target.name.size = 129;
  EXPECT_FALSE(Passes(request));
  request.body.attach.target.name.size = 255;
  EXPECT_FALSE(Passes(request));
}

TEST(Invariants, RefusesUnknownFlagsAndEnumerators) {
  Request request = AttachRequest();
  request.body.attach.attributes = kAllAttributes;
  EXPECT_TRUE(Passes(request));
  request.body.attach.attributes = kAllAttributes + 1;
  EXPECT_FALSE(Passes(request));
  request = AttachRequest();
  for (const std::uint32_t value : {0U, 4U, 0x80000000U}) {
    request.body.attach.propagation = static_cast<Propagation>(value);
    EXPECT_FALSE(Passes(request)) << value;
  }
  request = AttachRequest();
  for (const std::uint32_t value : {0U, 99U, 0xFFFFFFFFU}) {
    request.body.attach.source.kind = static_cast<SourceKind>(value);
    EXPECT_FALSE(Passes(request)) << value;
  }
}

TEST(Invariants, RefusesATmpfsThatIsUnboundedOrShared) {
  const auto with = [](auto change) {
    Request request = TmpfsRequest();
    change(request.body.attach.source.tmpfs);
    return request;
  };
  EXPECT_FALSE(Passes(with([](TmpfsPlan& t) { t.bytes = 0; })));
  EXPECT_FALSE(Passes(with([](TmpfsPlan& t) { t.bytes = (16U << 20U) + 1; })));
  EXPECT_TRUE(Passes(with([](TmpfsPlan& t) { t.bytes = 16U << 20U; })));
  EXPECT_FALSE(Passes(with([](TmpfsPlan& t) { t.inodes = 0; })));
  EXPECT_FALSE(Passes(with([](TmpfsPlan& t) { t.inodes = 1025; })));
  EXPECT_TRUE(Passes(with([](TmpfsPlan& t) { t.mode = 01777; })));
  EXPECT_FALSE(Passes(with([](TmpfsPlan& t) { t.mode = 04700; })));
  EXPECT_FALSE(Passes(with([](TmpfsPlan& t) { t.mode = 02700; })));
  EXPECT_FALSE(Passes(with([](TmpfsPlan& t) { t.uid = kNoId; })));
  EXPECT_FALSE(Passes(with([](TmpfsPlan& t) { t.gid = kNoId; })));
  EXPECT_FALSE(Passes(with([](TmpfsPlan& t) { t.no_swap = 2; })));
  Request replacing = TmpfsRequest();
  replacing.body.attach.replaces = 7;
  EXPECT_FALSE(Passes(replacing));
  for (const Propagation mode :
       {Propagation::kHostToTask, Propagation::kBidirectional}) {
    Request request = TmpfsRequest();
    request.body.attach.propagation = mode;
    EXPECT_FALSE(Passes(request));
  }
}

TEST(Invariants, RefusesMapsOfIdsThatAreUnsoundOrThatNoRuleGrants) {
  const auto with = [](std::vector<IdExtent> extents) {
    Request request = AttachRequest();
    request.body.attach.ids.count = static_cast<std::uint32_t>(extents.size());
    std::copy(extents.begin(), extents.end(),
              request.body.attach.ids.extents.begin());
    return request;
  };
  EXPECT_TRUE(Passes(with({{1000, 1, 1}})));
  EXPECT_TRUE(Passes(with({{1000, 5, 50}, {1050, 55, 50}, {7, 1, 1}})));
  EXPECT_FALSE(Passes(with({{1000, 5, 0}}))) << "no id";
  EXPECT_FALSE(Passes(with({{1000, 0, 1}}))) << "shown as root's";
  EXPECT_FALSE(Passes(with({{1000, 0xFFFFFFFE, 2}}))) << "past the last id";
  EXPECT_FALSE(Passes(with({{1000, 5, 51}, {1050, 100, 1}})))
      << "twice on disk";
  EXPECT_FALSE(Passes(with({{1000, 5, 50}, {1050, 54, 1}}))) << "shown twice";
  for (const IdExtent& extent :
       {IdExtent{0, 5, 1}, IdExtent{999, 5, 1}, IdExtent{999, 5, 2},
        IdExtent{1000, 5, 101}, IdExtent{6, 5, 2}}) {
    EXPECT_FALSE(Passes(with({extent}))) << extent.on_disk;
  }
  Request request = with({{1000, 1, 1}});
  request.body.attach.ids.count = kMaxIdExtents + 1;
  EXPECT_FALSE(Passes(request));
  request = TmpfsRequest();
  request.body.attach.ids.count = 1;
  request.body.attach.ids.extents[0] = {1000, 1, 1};
  EXPECT_FALSE(Passes(request));
}

// mountd, which may be compromised, says who the caller is. The executor holds
// it to users whom some rule names.
TEST(Invariants, OwnIdsAreOfSomebodyWhomARuleNames) {
  const auto of = [](std::uint32_t uid, std::vector<std::uint32_t> gids) {
    Request request = AttachRequest();
    AttachPlan& plan = request.body.attach;
    plan.caller.uid = uid;
    plan.caller.gid_count = static_cast<std::uint32_t>(gids.size());
    std::copy(gids.begin(), gids.end(), plan.caller.gids.begin());
    plan.ids.count = 1;
    plan.ids.extents[0] = {5000, 100999, 1};
    plan.ids.gid_count = 1;
    plan.ids.gids[0] = {6000, 100999, 1};
    return request;
  };
  const auto passes = [](const Request& request, std::uint32_t user) {
    Config config = TestConfig();
    config.rules.emplace_back().uids = {user};
    return CheckRequest(request, config).has_value();
  };
  EXPECT_TRUE(passes(of(5000, {6000}), 5000));
  EXPECT_FALSE(passes(of(5000, {6000}), 5001)) << "no rule names it";
  EXPECT_FALSE(passes(of(5000, {6001}), 5000));
  EXPECT_FALSE(passes(of(5000, {6001, 6000}), 5000)) << "not primary";
  EXPECT_FALSE(passes(of(5000, {}), 5000));
  EXPECT_FALSE(passes(of(5001, {6000}), 5001));
  Request request = of(5000, {6000});
  request.body.attach.caller.gid_count = 17;
  EXPECT_FALSE(passes(request, 5000));
  request = of(5000, {6000});
  request.body.attach.ids.extents[0].count = 2;
  EXPECT_FALSE(passes(request, 5000));
  request = of(0, {0});
  request.body.attach.ids.extents[0].on_disk = 0;
  request.body.attach.ids.gids[0].on_disk = 0;
  EXPECT_FALSE(passes(request, 0)) << "root's are nobody's own";
}

TEST(Invariants, RootsFilesShowAsTheCallersAloneAndInPrivate) {
  Config config = TestConfig();
  RuleConfig& rule = config.rules.emplace_back();
  rule.uids = {5000};
  rule.host_volumes = {"data"};
  rule.root_as_caller = true;
  const auto passes = [&](auto change) {
    Request request = AttachRequest();
    AttachPlan& plan = request.body.attach;
    plan.caller.uid = 5000;
    plan.caller.gid_count = 1;
    plan.caller.gids[0] = 6000;
    plan.ids.count = 1;
    plan.ids.extents[0] = {0, 5000, 1};
    plan.ids.gid_count = 1;
    plan.ids.gids[0] = {0, 6000, 1};
    change(plan);
    return CheckRequest(request, config).has_value();
  };
  EXPECT_TRUE(passes([](AttachPlan& /*plan*/) {}));
  EXPECT_FALSE(passes([](AttachPlan& p) { p.ids.extents[0].shown = 5001; }));
  EXPECT_FALSE(passes([](AttachPlan& p) { p.ids.gids[0].shown = 6001; }));
  EXPECT_FALSE(passes([](AttachPlan& p) { p.ids.extents[0].count = 2; }));
  EXPECT_FALSE(passes([](AttachPlan& p) { p.caller.uid = 5001; }));
  EXPECT_FALSE(
      passes([](AttachPlan& p) { p.source.host_volume = ToWire("other"); }));
  EXPECT_FALSE(passes([](AttachPlan& p) {
    p.source.kind = SourceKind::kFilesystem;
    p.source.filesystem = ToWire("data");
  }));
  EXPECT_FALSE(
      passes([](AttachPlan& p) { p.propagation = Propagation::kHostToTask; }));
  EXPECT_FALSE(passes(
      [](AttachPlan& p) { p.propagation = Propagation::kBidirectional; }));
}

TEST(Invariants, RefusesMapsOfGroupsThatAreUnsound) {
  Request request = AttachRequest();
  IdMapPlan& ids = request.body.attach.ids;
  ids.gid_count = 1;
  ids.gids[0] = {1000, 1, 1};
  EXPECT_FALSE(Passes(request)) << "without users";
  ids.count = 1;
  ids.extents[0] = {1001, 2, 1};
  EXPECT_TRUE(Passes(request));
  for (const IdExtent& extent : {IdExtent{1000, 0, 1}, IdExtent{1000, 1, 0},
                                 IdExtent{999, 1, 1}, IdExtent{0, 1, 1}}) {
    ids.gids[0] = extent;
    EXPECT_FALSE(Passes(request)) << extent.on_disk;
  }
  ids.gids[0] = {1000, 1, 1};
  ids.gid_count = kMaxIdExtents + 1;
  EXPECT_FALSE(Passes(request));
}

TEST(Invariants, AGroupThatPassesIsOneThatARuleGrants) {
  Request request;
  request.kind = PlanKind::kPrepareAllocation;
  request.body.allocation = {ToWire("web"), 1234};
  EXPECT_TRUE(Passes(request)) << "without a group";
  for (const std::uint32_t group : {7U, 1000U, 1099U}) {
    request.body.allocation.group = group;
    EXPECT_TRUE(Passes(request)) << group;
  }
  for (const std::uint32_t group : {6U, 1234U, 1100U, UINT32_MAX}) {
    request.body.allocation.group = group;
    EXPECT_FALSE(Passes(request)) << group;
  }
}

TEST(Invariants, ADirectoryIsMountedInAnInboxAlone) {
  const auto passes = [](auto change) {
    Request request = AttachRequest();
    request.body.attach.source = SourcePlan{};
    request.body.attach.source.kind = SourceKind::kDirectory;
    change(request.body.attach);
    return Passes(request);
  };
  EXPECT_TRUE(passes([](AttachPlan& /*plan*/) {}));
  EXPECT_TRUE(
      passes([](AttachPlan& p) { p.propagation = Propagation::kHostToTask; }));
  EXPECT_FALSE(passes(
      [](AttachPlan& p) { p.propagation = Propagation::kBidirectional; }));
  EXPECT_FALSE(
      passes([](AttachPlan& p) { p.target_kind = TargetKind::kDirectory; }));
  EXPECT_FALSE(passes([](AttachPlan& p) {
    p.target_kind = TargetKind::kContainer;
    p.container = Container(1, "/data", 1);
  }));
  EXPECT_FALSE(passes([](AttachPlan& p) { p.replaces = 7; }));
  EXPECT_FALSE(passes([](AttachPlan& p) { p.caller.gid_count = 17; }));
  Request request;
  request.kind = PlanKind::kOpenTree;
  request.body.open_tree = OpenTreePlan{};
  request.body.open_tree.allocation = ToWire("web");
  request.body.open_tree.source.kind = SourceKind::kDirectory;
  EXPECT_FALSE(Passes(request));
}

TEST(Invariants, ADirectoryComesAsAnFd) {
  Request request = AttachRequest();
  EXPECT_EQ(FdsOf(request), 0U);
  request.body.attach.source.kind = SourceKind::kDirectory;
  EXPECT_EQ(FdsOf(request), 1U);
}

TEST(Invariants, OnlyWhatHasAnAnchorIsReleased) {
  Request request;
  request.kind = PlanKind::kReleaseAnchor;
  for (const SourceKind kind :
       {SourceKind::kHostVolume, SourceKind::kFilesystem}) {
    request.body.anchor = {kind, ToWire("data"), 0};
    EXPECT_TRUE(Passes(request));
    request.body.anchor.source = ToWire("../data");
    EXPECT_FALSE(Passes(request));
  }
  for (const SourceKind kind :
       {SourceKind::kTmpfs, SourceKind::kPublishedVolume,
        static_cast<SourceKind>(0)}) {
    request.body.anchor = {kind, ToWire("data"), 0};
    EXPECT_FALSE(Passes(request));
  }
  request = AttachRequest();
  request.body.attach.source.kind = SourceKind::kFilesystem;
  EXPECT_FALSE(Passes(request)) << "without a name";
  request.body.attach.source.filesystem = ToWire("homes");
  EXPECT_TRUE(Passes(request));
}

TEST(Invariants, RefusesBidirectionalReadOnly) {
  Request request = AttachRequest();
  request.body.attach.propagation = Propagation::kBidirectional;
  EXPECT_TRUE(Passes(request));
  request.body.attach.attributes = kReadOnly;
  EXPECT_FALSE(Passes(request));
}

TEST(Invariants, RefusesVolumeKeysThatAreNotLowerCaseHex) {
  Request request = AttachRequest();
  SourcePlan& source = request.body.attach.source;
  source.kind = SourceKind::kPublishedVolume;
  source.plugin = ToWire("csi");
  source.volume.fill('a');
  EXPECT_TRUE(Passes(request));
  for (const char c : {'A', 'g', '/', '.', '\0', '\xFF'}) {
    source.volume[31] = c;
    EXPECT_FALSE(Passes(request)) << static_cast<int>(c);
  }
}

TEST(Invariants, VolumeDirsNeedAnAllocationOnlyWhenPublished) {
  Request request;
  request.kind = PlanKind::kPrepareVolumeDir;
  request.body.volume_dir = VolumeDirPlan{};
  request.body.volume_dir.plugin = ToWire("csi");
  request.body.volume_dir.volume.fill('0');
  EXPECT_TRUE(Passes(request));
  request.body.volume_dir.area = VolumeArea::kPublish;
  EXPECT_FALSE(Passes(request));
  request.body.volume_dir.allocation = ToWire("web");
  EXPECT_TRUE(Passes(request));
  request.body.volume_dir.area = static_cast<VolumeArea>(3);
  EXPECT_FALSE(Passes(request));
}

TEST(Invariants, RefusesAddressesThatNoAllocationMayHave) {
  for (const char* address : {"10.88.0.0", "10.88.0.1", "10.88.0.255",
                              "10.88.1.2", "127.0.0.1", "169.254.1.1"}) {
    Request request = NetworkRequest();
    request.body.network.ipv4 = netns::ParseIpv4(address).value();
    EXPECT_FALSE(Passes(request)) << address;
  }
  for (const char* address : {"fd88::", "fd88::1", "fd88::1:2", "::1"}) {
    Request request = NetworkRequest();
    request.body.network.ipv6 = netns::ParseIpv6(address).value();
    EXPECT_FALSE(Passes(request)) << address;
  }
  Request request = NetworkRequest();
  request.body.network.ipv6 = {};
  EXPECT_TRUE(Passes(request));
  request.body.network.network = ToWire("other");
  EXPECT_FALSE(Passes(request));
}

TEST(Invariants, ANetworkOfAnEarlierConfigCanBeTakenDown) {
  Request request = NetworkRequest();
  request.body.network.network = ToWire("other");
  request.kind = PlanKind::kDeleteNetwork;
  EXPECT_TRUE(Passes(request));
  request.body.network.ipv4 = {};
  request.body.network.ipv6 = {};
  EXPECT_FALSE(Passes(request)) << "a namespace alone has no network";
}

TEST(Invariants, ANetworkMayHaveIpv6Alone) {
  Request request = NetworkRequest();
  request.body.network.ipv4 = {};
  request.body.network.ipv6 = netns::ParseIpv6("fd88::2").value();
  for (const PlanKind kind :
       {PlanKind::kCreateNetwork, PlanKind::kRepairNetwork,
        PlanKind::kDeleteNetwork, PlanKind::kInspectNetwork}) {
    request.kind = kind;
    EXPECT_TRUE(Passes(request));
  }
  request.kind = PlanKind::kCreateNetwork;
  for (const char* address : {"fd88::", "fd88::1", "fd88::1:2", "::1"}) {
    request.body.network.ipv6 = netns::ParseIpv6(address).value();
    EXPECT_FALSE(Passes(request)) << address;
  }
  request.body.network.ipv6 = netns::ParseIpv6("fd88::2").value();
  request.body.network.ports[0] = At(22);
  EXPECT_FALSE(Passes(request)) << "no rule grants the port";
}

TEST(Invariants, RefusesInterfacesFlagsAndOriginsThatAreNone) {
  const auto with = [](const auto& change) {
    Request request = NetworkRequest();
    change(&request.body.network);
    return Passes(request);
  };
  for (const char* name : {"", "lo", ".", "..", "a/b", "a b", "a\n"}) {
    EXPECT_FALSE(with([&](NetworkPlan* plan) {
      plan->interface = {};
      std::copy_n(name, std::strlen(name), plan->interface.begin());
    })) << name;
  }
  EXPECT_FALSE(with([](NetworkPlan* plan) { plan->interface.fill('a'); }));
  EXPECT_FALSE(with([](NetworkPlan* plan) { plan->flags = 4; }));
  EXPECT_TRUE(with([](NetworkPlan* plan) { plan->flags = kAllNetworkFlags; }));
  EXPECT_FALSE(with([](NetworkPlan* plan) {
    plan->origin = static_cast<NamespaceOrigin>(0);
  }));
  EXPECT_TRUE(with(
      [](NetworkPlan* plan) { plan->origin = NamespaceOrigin::kExisting; }));
}

TEST(Invariants, ANamespaceAloneHasNothingElse) {
  Request request = NetworkRequest();
  request.body.network = NetworkPlan{};
  request.body.network.allocation = ToWire("web");
  EXPECT_TRUE(Passes(request));
  request.body.network.origin = NamespaceOrigin::kExisting;
  EXPECT_FALSE(Passes(request));
  request.body.network.origin = NamespaceOrigin::kNew;
  request.body.network.ipv6 = netns::ParseIpv6("fd88::2").value();
  EXPECT_FALSE(Passes(request));
}

TEST(Invariants, RefusesHostPortsThatNoRuleGrants) {
  for (const PortMap& port : {At(22), At(442), At(444), At(8079), At(8091)}) {
    Request request = NetworkRequest();
    request.body.network.ports[0] = port;
    EXPECT_FALSE(Passes(request)) << port.host_port;
    // A port that was mapped under an earlier configuration can still be
    // removed.
    request.kind = PlanKind::kDeleteNetwork;
    EXPECT_TRUE(Passes(request)) << port.host_port;
  }
  for (const PortMap& port : {At(443), At(8080), At(8090)}) {
    Request request = NetworkRequest();
    request.body.network.ports[0] = port;
    EXPECT_TRUE(Passes(request)) << port.host_port;
  }
}

TEST(Invariants, OnlyAProtocolOfThePortIsMappedIfFree) {
  const auto with = [](std::uint8_t protocols, std::uint8_t if_free) {
    Request request = NetworkRequest();
    request.body.network.ports[0].protocols = protocols;
    request.body.network.ports[0].if_free = if_free;
    return request;
  };
  EXPECT_TRUE(Passes(with(kTcp | kUdp, kUdp)));
  EXPECT_TRUE(Passes(with(kUdp, kUdp)));
  EXPECT_FALSE(Passes(with(kTcp, kUdp)));
  EXPECT_FALSE(Passes(with(kTcp, 0x80)));
}

TEST(Invariants, PortsThatAreAskedForAreGranted) {
  Request request = NetworkRequest();
  request.kind = PlanKind::kCheckHostPorts;
  EXPECT_TRUE(Passes(request));
  request.body.network.has_keeper = 2;
  EXPECT_FALSE(Passes(request));
  request.kind = PlanKind::kCreateNetwork;
  EXPECT_FALSE(Passes(request));
  request.kind = PlanKind::kCheckHostPorts;
  request.body.network.has_keeper = 1;
  EXPECT_TRUE(Passes(request));
  request.body.network.ports[0] = At(22);
  EXPECT_FALSE(Passes(request));
}

TEST(Invariants, PortsAreUpdatedOnlyOfANetworkThatIsThere) {
  const auto with = [](auto change) {
    const NetworkPlan network = NetworkRequest().body.network;
    Request request;
    request.kind = PlanKind::kUpdatePorts;
    request.body.ports = PortsPlan{};
    request.body.ports.network = network;
    request.body.ports.network.origin = NamespaceOrigin::kExisting;
    request.body.ports.network.netns_inode = 5;
    change(request.body.ports);
    return request;
  };
  EXPECT_TRUE(Passes(with([](PortsPlan&) {})));
  EXPECT_TRUE(CheckFds(with([](PortsPlan&) {}), 0).has_value());
  const auto refused = [&](auto change) { return !Passes(with(change)); };
  EXPECT_TRUE(refused([](PortsPlan& p) { p.network.netns_inode = 0; }));
  EXPECT_TRUE(
      refused([](PortsPlan& p) { p.network.origin = NamespaceOrigin::kNew; }));
  EXPECT_TRUE(refused([](PortsPlan& p) { p.network.has_keeper = 1; }));
  EXPECT_TRUE(refused([](PortsPlan& p) { p.network.may_be_hosts = 1; }));
  EXPECT_TRUE(refused([](PortsPlan& p) { p.network.ports[0] = At(22); }));
  EXPECT_TRUE(refused([](PortsPlan& p) { p.network.ipv4 = {127, 0, 0, 1}; }));
  EXPECT_TRUE(refused([](PortsPlan& p) {
    p.network.ipv6 = netns::ParseIpv6("fd88::1:2").value();
  }));
  EXPECT_TRUE(refused([](PortsPlan& p) {
    p.network.ipv4 = {};
    p.network.ipv6 = {};
  }));
  EXPECT_TRUE(refused([](PortsPlan& p) { p.old_count = kMaxPorts + 1; }));
  EXPECT_TRUE(refused([](PortsPlan& p) { p.old_count = 1; }));
  // The rule that granted an old port may be gone.
  EXPECT_FALSE(refused([](PortsPlan& p) {
    p.old_count = 1;
    p.old_ports[0] = At(22);
  }));
}

TEST(Invariants, OnlyARecordedNamespaceIsOpened) {
  const auto with = [](auto change) {
    Request request;
    request.kind = PlanKind::kOpenNamespace;
    request.body.network = NetworkPlan{};
    request.body.network.allocation = ToWire("web");
    request.body.network.origin = NamespaceOrigin::kExisting;
    request.body.network.netns_inode = 5;
    change(request.body.network);
    return request;
  };
  EXPECT_TRUE(Passes(with([](NetworkPlan&) {})));
  EXPECT_TRUE(CheckFds(with([](NetworkPlan&) {}), 0).has_value());
  EXPECT_FALSE(CheckFds(with([](NetworkPlan&) {}), 1).has_value());
  EXPECT_FALSE(Passes(with([](NetworkPlan& n) { n.netns_inode = 0; })));
  EXPECT_FALSE(Passes(with([](NetworkPlan& n) { n.allocation = {}; })));
  EXPECT_FALSE(
      Passes(with([](NetworkPlan& n) { n.origin = NamespaceOrigin::kNew; })));
  EXPECT_FALSE(Passes(with([](NetworkPlan& n) { n.ipv4 = {10, 88, 0, 2}; })));
  EXPECT_FALSE(Passes(with([](NetworkPlan& n) { n.ipv6 = {0xfd}; })));
  EXPECT_FALSE(Passes(with([](NetworkPlan& n) { n.port_count = 1; })));
  EXPECT_FALSE(Passes(with([](NetworkPlan& n) { n.flags = kIsolated; })));
  EXPECT_FALSE(Passes(with([](NetworkPlan& n) { n.may_be_hosts = 1; })));
  EXPECT_FALSE(Passes(with([](NetworkPlan& n) { n.has_keeper = 1; })));
}

TEST(Invariants, RefusesPortsThatAreZeroUnknownOrTooMany) {
  const auto with = [](const PortMap& port) {
    Request request = NetworkRequest();
    request.body.network.port_count = 2;
    request.body.network.ports[1] = port;
    return request;
  };
  EXPECT_TRUE(Passes(with({8081, 80, kTcp | kUdp, 0})));
  EXPECT_TRUE(Passes(with({8080, 80, kUdp, 0})));
  EXPECT_TRUE(Passes(with({8081, 65535, kSctp, 4, 1, {127, 0, 0, 1}})));
  EXPECT_TRUE(Passes(with({8081, 80, kTcp, 6, 10, {0xfd}})));
  EXPECT_FALSE(Passes(with({8081, 80, kTcp, 6, 11, {0xfd}}))) << "not granted";
  EXPECT_FALSE(Passes(with({8081, 80, kTcp, 0, 0})));
  EXPECT_FALSE(Passes(with({8081, 65535, kTcp, 0, 2})));
  EXPECT_FALSE(Passes(with({8081, 80, kTcp, 0, 1, {127, 0, 0, 1}})));
  EXPECT_FALSE(Passes(with({8081, 80, kTcp, 4, 1, {0xfd, 0, 0, 0, 1}})));
  EXPECT_FALSE(Passes(with({8081, 80, kTcp, 5, 1})));
  EXPECT_FALSE(Passes(with({0, 80, kTcp, 0})));
  EXPECT_FALSE(Passes(with({8081, 0, kTcp, 0})));
  EXPECT_FALSE(Passes(with({8081, 80, 0, 0})));
  EXPECT_FALSE(Passes(with({8081, 80, 8, 0})));
  EXPECT_FALSE(Passes(with({8081, 80, kTcp, 1})));
  Request request = NetworkRequest();
  request.body.network.port_count = kMaxPorts + 1;
  EXPECT_FALSE(Passes(request));
  request.body.network.port_count = 0xFFFFFFFFU;
  EXPECT_FALSE(Passes(request));
}

TEST(Invariants, WhatWasHandedOutIsLookedForOnTheNode) {
  Request request;
  request.kind = PlanKind::kFindHolders;
  request.body.holders = {0, HolderScope::kNode, 100, 0, kMaxHandedOut};
  const HoldersPlan right = request.body.holders;
  EXPECT_TRUE(Passes(request));
  request.body.holders.count = kMaxHandedOut + 1;
  EXPECT_FALSE(Passes(request));
  request.body.holders = right;
  request.body.holders.mount_id = 5;
  EXPECT_FALSE(Passes(request));
  request.body.holders = right;
  request.body.holders.cgroup = 7;
  EXPECT_TRUE(Passes(request));
  request.body.holders.scope = HolderScope::kCgroup;
  EXPECT_FALSE(Passes(request));
}

TEST(Invariants, HoldersAreLookedForWithinBounds) {
  Request request;
  request.kind = PlanKind::kFindHolders;
  request.body.holders = {5, HolderScope::kCgroup, 100, 7};
  const HoldersPlan right = request.body.holders;
  EXPECT_TRUE(Passes(request));
  request.body.holders.budget_ms = kMaxHolderBudgetMs + 1;
  EXPECT_FALSE(Passes(request));
  request.body.holders.budget_ms = 0;
  EXPECT_FALSE(Passes(request));
  request.body.holders = right;
  request.body.holders.mount_id = 0;
  EXPECT_FALSE(Passes(request));
  request.body.holders = right;
  request.body.holders.cgroup = 0;
  EXPECT_FALSE(Passes(request));
  request.body.holders.scope = HolderScope::kNode;
  EXPECT_TRUE(Passes(request));
  request.body.holders.scope = static_cast<HolderScope>(3);
  EXPECT_FALSE(Passes(request));
}

TEST(Invariants, CopiesAreLookedForWithinBounds) {
  Request request;
  request.kind = PlanKind::kFindCopies;
  request.body.copies = CopiesPlan{};
  CopiesPlan right;
  right.cgroup = 7;
  right.budget_ms = 100;
  right.count = 1;
  right.mount_ids[0] = 5;
  const auto passes = [&](const auto& change) {
    request.body.copies = right;
    change(request.body.copies);
    return Passes(request);
  };
  EXPECT_TRUE(passes([](CopiesPlan&) {}));
  EXPECT_FALSE(passes([](CopiesPlan& plan) { plan.budget_ms = 0; }));
  EXPECT_FALSE(passes(
      [](CopiesPlan& plan) { plan.budget_ms = kMaxHolderBudgetMs + 1; }));
  EXPECT_FALSE(passes([](CopiesPlan& plan) { plan.count = 0; }));
  EXPECT_FALSE(
      passes([](CopiesPlan& plan) { plan.count = kMaxCopiedMounts + 1; }));
  EXPECT_FALSE(passes([](CopiesPlan& plan) { plan.cgroup = 0; }));
  EXPECT_FALSE(passes(
      [](CopiesPlan& plan) { plan.scope = static_cast<HolderScope>(3); }));
  EXPECT_FALSE(passes([](CopiesPlan& plan) { plan.has_volume = 1; }));
  right.count = 0;
  right.cgroup = 0;
  right.has_volume = 1;
  right.volume.plugin = ToWire("nfs");
  right.volume.allocation = ToWire("web");
  right.volume.volume = VolumeKey::Derive("nfs", "v").hex();
  right.volume.area = VolumeArea::kPublish;
  EXPECT_TRUE(passes([](CopiesPlan&) {}));
  EXPECT_FALSE(passes([](CopiesPlan& plan) {
    plan.volume.area = VolumeArea::kStaging;
    plan.volume.allocation = {};
  }));
  EXPECT_FALSE(passes([](CopiesPlan& plan) { plan.before.root.fill('x'); }));
  EXPECT_FALSE(passes([](CopiesPlan& plan) { plan.before.type.fill('x'); }));
  EXPECT_FALSE(passes([](CopiesPlan& plan) { plan.before.source.fill('x'); }));
}

TEST(Invariants, ProcessesAreLookedForWithinBounds) {
  Request request;
  request.kind = PlanKind::kFindProcesses;
  request.body.processes = {7, 8, 100};
  EXPECT_TRUE(Passes(request));
  request.body.processes = {0, 8, 100};
  EXPECT_TRUE(Passes(request));
  request.body.processes = {7, 0, kMaxHolderBudgetMs};
  EXPECT_TRUE(Passes(request));
  request.body.processes = {0, 0, 100};
  EXPECT_FALSE(Passes(request));
  request.body.processes = {7, 8, 0};
  EXPECT_FALSE(Passes(request));
  request.body.processes = {7, 8, kMaxHolderBudgetMs + 1};
  EXPECT_FALSE(Passes(request));
}

TEST(Invariants, TasksAreStoppedWithinBounds) {
  Request request;
  request.kind = PlanKind::kStopTasks;
  const auto passes = [&](const StopTasksPlan& plan) {
    request.body.stop_tasks = plan;
    return Passes(request);
  };
  EXPECT_TRUE(passes({7, TaskStop::kFreeze, 1}));
  EXPECT_TRUE(passes({7, TaskStop::kKill, kMaxStopBudgetMs}));
  EXPECT_FALSE(passes({0, TaskStop::kKill, 100}));
  EXPECT_FALSE(passes({7, TaskStop::kNo, 100}));
  EXPECT_FALSE(passes({7, static_cast<TaskStop>(3), 100}));
  EXPECT_FALSE(passes({7, TaskStop::kKill, 0}));
  EXPECT_FALSE(passes({7, TaskStop::kKill, kMaxStopBudgetMs + 1}));
  StopTasksPlan many{7, TaskStop::kKill, 100};
  many.owner.gid_count = 17;
  EXPECT_FALSE(passes(many));
  EXPECT_FALSE(CheckFds(request, 1).has_value());
}

TEST(Invariants, AContainerIsNamedByCgroupPidfdAndPath) {
  Request request = AttachRequest();
  request.body.attach.target_kind = TargetKind::kContainer;
  request.body.attach.container = Container(7, "/data", 300);
  EXPECT_TRUE(Passes(request));
  EXPECT_TRUE(CheckFds(request, 1).has_value());
  EXPECT_FALSE(CheckFds(request, 0).has_value());
  request.body.attach.replaces = 5;
  EXPECT_FALSE(Passes(request));
  request.body.attach.replaces = 0;
  request.body.attach.container = Container(0, "/data", 300);
  EXPECT_FALSE(Passes(request));
  // The plan needs the caller's pid, because the executor must tell the caller
  // from the container.
  request.body.attach.container = Container(7, "/data", 0);
  EXPECT_FALSE(Passes(request));
  for (const std::string path :
       {"", "/", "data", "/data/", "//data", "/data/../x", "/.", "/proc",
        "/proc/1", "/sys/fs/cgroup"}) {
    request.body.attach.container = Container(7, path, 300);
    EXPECT_FALSE(Passes(request)) << path;
  }
  // A path without a NUL has no end.
  const std::string longest = "/" + std::string(kMaxContainerPath - 2, 'a');
  request.body.attach.container = Container(7, longest, 300);
  EXPECT_TRUE(Passes(request));
  request.body.attach.container = Container(7, longest + "a", 300);
  EXPECT_FALSE(Passes(request));
}

TEST(Invariants, TasksAreNamedByCgroupAndPidfd) {
  Request request;
  request.kind = PlanKind::kInspectCgroup;
  request.body.cgroup = {0};
  EXPECT_FALSE(Passes(request));
  request.body.cgroup = {7};
  EXPECT_TRUE(Passes(request));
  EXPECT_TRUE(CheckFds(request, 0).has_value());
  request.kind = PlanKind::kInspectTask;
  EXPECT_TRUE(CheckFds(request, 1).has_value());
  EXPECT_FALSE(CheckFds(request, 0).has_value());
  request.kind = PlanKind::kVerifyTask;
  request.body.verify_task = VerifyTaskPlan{};
  EXPECT_FALSE(Passes(request));
  request.body.verify_task.cgroup = 7;
  request.body.verify_task.count = kMaxTaskMounts;
  EXPECT_TRUE(Passes(request));
  EXPECT_TRUE(CheckFds(request, 1).has_value());
  EXPECT_FALSE(CheckFds(request, 2).has_value());
  request.body.verify_task.count = kMaxTaskMounts + 1;
  EXPECT_FALSE(Passes(request));
}

// The ports of kUpdatePorts do not make each other plan twice as large.
TEST(Invariants, ARequestHasTheBytesOfItsKind) {
  Request request;
  const auto bytes = std::as_bytes(std::span(&request, 1));
  const auto is_taken = [&](std::size_t size) {
    return IsDecoded(bytes.first(size));
  };
  EXPECT_LT(BytesOf(PlanKind::kAttach), sizeof(NetworkPlan) + 64);
  for (const PlanKind kind : {PlanKind::kHello, PlanKind::kCreateNetwork}) {
    request.kind = kind;
    EXPECT_TRUE(is_taken(BytesOf(kind)));
    EXPECT_TRUE(is_taken(sizeof(Request)));
    EXPECT_FALSE(is_taken(BytesOf(kind) - 1));
    EXPECT_FALSE(is_taken(BytesOf(kind) + 1));
    EXPECT_FALSE(is_taken(sizeof(Request) - 1));
  }
  request.kind = PlanKind::kUpdatePorts;
  EXPECT_TRUE(is_taken(sizeof(Request)));
  EXPECT_FALSE(is_taken(kUsualRequestBytes));
  EXPECT_FALSE(is_taken(4));
  EXPECT_FALSE(is_taken(0));
}

TEST(Invariants, RandomBytesNeverCrashAndHardlyEverPass) {
  std::mt19937 random(20261121);
  std::vector<std::byte> bytes(sizeof(Request));
  const Config config = TestConfig();
  int passed = 0;
  constexpr std::array<std::uint32_t, 17> kKinds = {
      10, 11, 12, 13, 14, 15, 16, 20, 21, 22, 23, 24, 25, 30, 31, 32, 33};
  for (int round = 0; round < 20000; ++round) {
    for (std::byte& byte : bytes) {
      byte = static_cast<std::byte>(random());
    }
    std::memcpy(bytes.data(), &kProtocolVersion, sizeof(kProtocolVersion));
    const std::uint32_t kind = kKinds.at(random() % kKinds.size());
    std::memcpy(&bytes[4], &kind, sizeof(kind));
    Request request;
    ASSERT_TRUE(DecodeRequest(bytes, &request).has_value());
    passed += kind != 10 && kind != 30 && CheckRequest(request, config) ? 1 : 0;
  }
  EXPECT_LT(passed, 200);  // one-byte names of random letters
}

}  // namespace
}  // namespace mountd::exec
