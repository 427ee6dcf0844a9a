// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The lists of what a caller may use say what a following call is granted.
#include "mountd/policy/grants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/matchers.h"
#include "tests/unit/mountd/service/core_fixture.h"

namespace mountd {
namespace {

using exec::Propagation;

using GrantWords = std::vector<std::string>;

constexpr std::uint32_t kGrantedGroup = 2000;
constexpr std::uint32_t kOtherGroup = 2001;
// The id of no user of the machine that runs the test.
constexpr std::uint32_t kUnknownUser = 4'000'000'000U;

constexpr auto kAskedModes =
    std::to_array({Propagation::kPrivate, Propagation::kHostToTask,
                   Propagation::kBidirectional});

constexpr std::array<std::uint16_t, 4> kAskedPorts = {19'999, 20'000, 20'007,
                                                      65'535};
constexpr std::array<std::uint16_t, 4> kAskedCounts = {1, 4, 11, 14};

// Has sources of each kind: open, read-only, of some modes, and of one user.
Config ConfigOfGrants() {
  constexpr std::string_view kText = R"(
[host_volume.data]
path = "/srv/data"
propagation = ["private", "host-to-task", "bidirectional"]
[host_volume.frozen]
path = "/srv/frozen"
read_only = true
propagation = ["private", "host-to-task"]
[host_volume.followed]
path = "/srv/followed"
propagation = ["host-to-task"]
[host_volume.own]
path = "/srv/own"
[filesystem.homes]
type = "nfs4"
source = "server:/homes"
options = ["noexec", "soft", "timeo=50", "lookupcache=pos", "sec=krb5"]
propagation = ["private", "bidirectional"]
[filesystem.share]
type = "cifs"
source = "//server/share"
read_only = true
options = ["credentials=/etc/mountd/share", "username=joe", "seal"]
[network.default]
ipv4 = "10.0.0.0/29"
ipv6 = "fd00::/64"
[network.storage]
ipv4 = ["10.1.0.0/24", "10.2.0.0/24"]
mtu = 9000
[cni]
)";
  Config config = ParseConfig(kText, "test").value();
  config.host_volumes.at("own").uids = {Core::kOther};
  return config;
}

template <typename Range>
bool OneHolds(const std::vector<Range>& ranges, std::uint64_t first,
              std::uint64_t last) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const Range& range) {
    return first >= range.first && last <= range.last;
  });
}

bool Has(const std::vector<Propagation>& modes, Propagation mode) {
  return std::find(modes.begin(), modes.end(), mode) != modes.end();
}

template <typename Grant>
const Grant* FindGrant(const std::vector<Grant>& grants,
                       const std::string& name) {
  const auto found =
      std::find_if(grants.begin(), grants.end(),
                   [&](const Grant& grant) { return grant.name == name; });
  return found == grants.end() ? nullptr : &*found;
}

class GrantsTest : public CoreFixture {
 protected:
  GrantsTest() : CoreFixture(ConfigOfGrants()) {
    executor().PutCniNetwork("net", "");
    executor().PutCniNetwork("bad", "no such plugin");
  }

  void SetRules(std::vector<RuleConfig> rules) {
    Config next = core_.config;
    next.rules = std::move(rules);
    core_.live_config.ReplaceLive(std::move(next));
  }
  static CallContext As(std::uint32_t uid, std::uint32_t gid,
                        std::vector<std::uint32_t> groups = {}) {
    CallContext call = Core::By(uid);
    call.caller.gid = gid;
    call.caller.groups = std::move(groups);
    return call;
  }

  // Returns whether BindMount of these would be granted.
  bool MayMount(const CallContext& call, exec::SourceKind kind,
                const std::string& name, bool read_only, Propagation mode,
                const exec::IdExtent& ids = {},
                const exec::IdExtent& gids = {}) {
    BindMountRequest request;
    request.allocation = "web";
    request.task = "t";
    request.name = "m";
    request.wish.source_kind = kind;
    request.wish.source = name;
    request.wish.attributes = read_only ? exec::kReadOnly : 0U;
    request.wish.propagation = mode;
    request.wish.ids.count = ids.count == 0 ? 0 : 1;
    request.wish.ids.extents[0] = ids;
    request.wish.ids.gid_count = gids.count == 0 ? 0 : 1;
    request.wish.ids.gids[0] = gids;
    const bool may = services()
                         .admission.Authorise(call, AllocationRecord(), request)
                         .has_value();
    ++(may ? granted_ : denied_);
    return may;
  }
  // Returns whether SetupNetwork with these would be granted.
  bool MayBeIn(const CallContext& call, NetworkMode mode,
               const std::string& name, std::uint16_t port = 0,
               std::uint16_t count = 1) {
    NetworkRequest request;
    request.mode = mode;
    request.network = name;
    if (port != 0) {
      PortMapping& mapping = request.ports.emplace_back();
      mapping.host_port = port;
      mapping.count = count;
    }
    const bool may = services()
                         .access.PolicyFor(call)
                         .networks()
                         .MayUseNetwork(call.caller, request)
                         .has_value();
    ++(may ? granted_ : denied_);
    return may;
  }

  template <typename Grant>
  void CompareSource(const CallContext& call, exec::SourceKind kind,
                     const std::string& name, const std::vector<Grant>& list) {
    SCOPED_TRACE(name);
    const Grant* const grant = FindGrant(list, name);
    for (const Propagation mode : kAskedModes) {
      for (const bool read_only : {true, false}) {
        const bool listed =
            grant != nullptr &&
            Has(read_only ? grant->read_only : grant->writable, mode);
        EXPECT_EQ(MayMount(call, kind, name, read_only, mode), listed)
            << PropagationName(mode) << " " << read_only;
      }
    }
    if (grant != nullptr) {
      CompareIds(call, kind, *grant);
    }
  }
  void CompareIds(const CallContext& call, exec::SourceKind kind,
                  const SourceGrant& grant) {
    const bool read_only = !grant.read_only.empty();
    const Propagation mode = read_only ? grant.read_only[0] : grant.writable[0];
    for (const std::uint32_t first : {99'999U, 100'000U, 100'007U, 100'010U}) {
      for (const std::uint32_t count : {1U, 4U, 11U, 14U}) {
        EXPECT_EQ(MayMount(call, kind, grant.name, read_only, mode,
                           {first, 5, count}),
                  OneHolds(grant.ids, first, std::uint64_t{first} + count - 1))
            << first << " " << count;
      }
    }
  }
  void CompareRoot(const CallContext& call, const std::string& name,
                   const HostVolumeGrant* grant) {
    for (const bool read_only : {true, false}) {
      const bool listed =
          grant != nullptr && (read_only ? grant->read_only_root_as_caller
                                         : grant->writable_root_as_caller);
      EXPECT_EQ(MayMount(call, exec::SourceKind::kHostVolume, name, read_only,
                         Propagation::kPrivate, {0, call.caller.uid, 1},
                         {0, call.caller.gid, 1}),
                listed)
          << read_only;
      shows_root_ += listed ? 1 : 0;
    }
  }
  void CompareNetwork(const CallContext& call, NetworkMode mode,
                      const std::string& name,
                      const std::vector<NetworkGrant>& list) {
    SCOPED_TRACE(name);
    const auto found =
        std::find_if(list.begin(), list.end(), [&](const NetworkGrant& one) {
          return one.mode == mode && one.network == name;
        });
    EXPECT_EQ(MayBeIn(call, mode, name), found != list.end());
    for (const std::uint16_t port : kAskedPorts) {
      for (const std::uint16_t count : kAskedCounts) {
        EXPECT_EQ(
            MayBeIn(call, mode, name, port, count),
            found != list.end() && OneHolds(found->host_ports, port,
                                            port + std::uint64_t{count} - 1))
            << port << " " << count;
      }
    }
    if (found != list.end()) {
      EXPECT_EQ(
          found->host_namespaces,
          services().access.PolicyFor(call).networks().MayPassHostNamespaces(
              call.caller));
    }
  }
  void CompareAll(const CallContext& call);

  std::size_t shows_root_ = 0;
  std::size_t granted_ = 0;
  std::size_t denied_ = 0;
};

void GrantsTest::CompareAll(const CallContext& call) {
  const auto volumes = services().grants.ListHostVolumes(call);
  ASSERT_THAT(volumes, IsOk());
  for (const auto& [name, volume] : core_.config.host_volumes) {
    CompareSource(call, exec::SourceKind::kHostVolume, name, *volumes);
    CompareRoot(call, name, FindGrant(*volumes, name));
  }
  const auto filesystems = services().grants.ListFilesystems(call);
  ASSERT_THAT(filesystems, IsOk());
  for (const auto& [name, filesystem] : core_.config.filesystems) {
    CompareSource(call, exec::SourceKind::kFilesystem, name, *filesystems);
  }
  const auto networks = services().grants.ListNetworks(call);
  ASSERT_THAT(networks, IsOk());
  for (const auto& [name, network] : core_.config.networks) {
    CompareNetwork(call, NetworkMode::kBridge, name, *networks);
  }
  for (const char* name : {"net", "bad"}) {
    CompareNetwork(call, NetworkMode::kCni, name, *networks);
  }
}

// Makes rules of any rights for any of the callers, from a seed.
class RuleMaker {
 public:
  explicit RuleMaker(unsigned seed) : random_(seed) {}

  std::vector<RuleConfig> Rules() {
    std::vector<RuleConfig> rules(random_() % 4);
    for (RuleConfig& rule : rules) {
      rule.uids = Some<std::uint32_t>({Core::kAgent, Core::kOther, 0});
      rule.gids = Some<std::uint32_t>({kGrantedGroup, kOtherGroup});
      rule.host_volumes =
          Some<std::string>({"data", "data:ro", "frozen", "frozen:ro",
                             "followed:ro", "followed", "own", "*:ro", "*"});
      rule.filesystems =
          Some<std::string>({"homes", "homes:ro", "share", "share:ro", "*:ro"});
      rule.networks = Some<std::string>(
          {"default", "storage", "*", "cni/net", "cni/bad", "cni/*"});
      rule.host_ports = Some<PortRange>({{20'000, 20'010},
                                         {20'005, 20'020},
                                         {20'007, 20'008},
                                         {20'011, 20'030},
                                         {65'535, 65'535}});
      rule.ids = Some<IdRange>({{100'000, 100'010},
                                {100'005, 100'020},
                                {100'007, 100'008},
                                {100'011, 100'030}});
      rule.bidirectional = random_() % 2 == 0;
      rule.host_namespaces = random_() % 2 == 0;
      rule.administer = random_() % 4 == 0;
      rule.root_as_caller = random_() % 2 == 0;
    }
    return rules;
  }

 private:
  // Returns each value with a probability of one third.
  template <typename T>
  std::vector<T> Some(const std::vector<T>& values) {
    std::vector<T> some;
    std::copy_if(values.begin(), values.end(), std::back_inserter(some),
                 [&](const T&) { return random_() % 3 == 0; });
    return some;
  }

  std::mt19937 random_;
};

TEST_F(GrantsTest, AListSaysWhatAFollowingCallIsGranted) {
  constexpr unsigned kSeeds = 150;
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    SetRules(RuleMaker(seed).Rules());
    for (const CallContext& call :
         {As(Core::kAgent, 1), As(Core::kOther, kGrantedGroup),
          As(Core::kNobody, 1, {7, kOtherGroup}), As(0, 0),
          As(Core::kNobody, 1)}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " uid " +
                   std::to_string(call.caller.uid));
      CompareAll(call);
    }
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(granted_, 1000U);
  EXPECT_GT(denied_, 1000U);
  EXPECT_GT(shows_root_, 50U);
}

// BindMount needs no ids for these, so the list has none of them.
TEST_F(GrantsTest, AListLacksTheIdsThatNeedNoIds) {
  RuleConfig rule;
  rule.uids = {Core::kAgent};
  rule.host_volumes = {"data"};
  SetRules({rule});
  const CallContext agent = As(Core::kAgent, Core::kAgent);
  const auto may = [&](const exec::IdExtent& ids) {
    return MayMount(agent, exec::SourceKind::kHostVolume, "data", false,
                    Propagation::kPrivate, ids);
  };
  EXPECT_TRUE(may({Core::kAgent, 5, 1}));
  EXPECT_FALSE(may({0, Core::kAgent, 1}));
  rule.root_as_caller = true;
  SetRules({rule});
  EXPECT_TRUE(may({0, Core::kAgent, 1}));
  const auto volumes = services().grants.ListHostVolumes(agent);
  ASSERT_THAT(volumes, IsOk());
  const HostVolumeGrant* const grant = FindGrant(*volumes, "data");
  ASSERT_NE(grant, nullptr);
  EXPECT_TRUE(grant->ids.empty());
  EXPECT_TRUE(grant->writable_root_as_caller);
}

TEST_F(GrantsTest, AListSaysWhereRootsFilesMayShow) {
  RuleConfig rule;
  rule.uids = {Core::kAgent, 0};
  rule.host_volumes = {"data:ro", "own"};
  rule.filesystems = {"*"};
  rule.root_as_caller = true;
  RuleConfig without;
  without.uids = {Core::kAgent};
  without.host_volumes = {"data", "followed"};
  SetRules({rule, without});
  // Returns whether root's files may show, read-only and writable.
  using Shows = std::pair<bool, bool>;
  const auto shows = [&](const std::string& name, const CallContext& call,
                         const GrantsOf& of = {}) {
    const auto volumes = services().grants.ListHostVolumes(call, of);
    EXPECT_THAT(volumes, IsOk());
    const HostVolumeGrant* const grant = FindGrant(*volumes, name);
    EXPECT_NE(grant, nullptr);
    return grant == nullptr ? Shows()
                            : Shows(grant->read_only_root_as_caller,
                                    grant->writable_root_as_caller);
  };
  const CallContext agent = As(Core::kAgent, Core::kAgent);
  EXPECT_EQ(shows("data", agent), Shows(true, false));
  EXPECT_EQ(shows("followed", agent), Shows(false, false));
  EXPECT_EQ(shows("data", As(0, 0)), Shows(false, false));
  // Another rule may have the right for the same user.
  const GrantsOf everybody{.all_users = true};
  EXPECT_EQ(shows("data", As(0, 0), everybody), Shows(true, false));
  EXPECT_EQ(shows("own", As(0, 0), everybody), Shows(true, true));
  // A rule that names root alone grants it to nobody.
  rule.uids = {0};
  SetRules({rule, without});
  EXPECT_EQ(shows("own", As(0, 0), everybody), Shows(false, false));
}

TEST_F(GrantsTest, AnEntryHasWhatTheAdministratorDeclared) {
  RuleConfig rule;
  rule.uids = {Core::kAgent};
  rule.host_volumes = rule.filesystems = rule.networks = {"*"};
  rule.networks.emplace_back("cni/*");
  SetRules({rule});
  const auto volumes = services().grants.ListHostVolumes(agent_).value();
  EXPECT_EQ(FindGrant(volumes, "own"), nullptr) << "it is another user's";
  ASSERT_EQ(volumes.size(), 3U);
  const HostVolumeGrant& frozen = *FindGrant(volumes, "frozen");
  EXPECT_EQ(frozen.path, "/srv/frozen");
  EXPECT_EQ(frozen.attributes, (GrantWords{"read_only", "nosuid", "nodev"}));
  EXPECT_TRUE(frozen.writable.empty());
  EXPECT_EQ(frozen.limits.at("mounts_per_allocation"), 256U);
  EXPECT_EQ(frozen.limits.at("mounts_per_uid"), 10'000U);

  const auto filesystems = services().grants.ListFilesystems(agent_).value();
  const FilesystemGrant& homes = *FindGrant(filesystems, "homes");
  EXPECT_EQ(homes.type, "nfs4");
  EXPECT_EQ(homes.attributes, (GrantWords{"nosuid", "nodev", "noexec"}));
  EXPECT_EQ(homes.options,
            (GrantWords{"noexec", "soft", "timeo=50", "lookupcache=pos"}));
  EXPECT_EQ(FindGrant(filesystems, "share")->options, GrantWords{"seal"})
      << "an account, and the file of its password, are nobody's business";

  const auto networks = services().grants.ListNetworks(agent_).value();
  ASSERT_EQ(networks.size(), 4U);
  EXPECT_EQ(networks[1].network, "storage");
  EXPECT_EQ(networks[1].ipv4.size(), 2U);
  EXPECT_EQ(networks[1].mtu, 9000U);
  EXPECT_EQ(networks[1].limits.at("namespaces_per_uid"), 512U);
  EXPECT_EQ(networks[2].network, "bad");
  EXPECT_EQ(networks[2].unusable, "no such plugin");
  EXPECT_EQ(networks[3].unusable, "");
}

// The executor refuses it there (propagation/source.cc).
TEST_F(GrantsTest, NoHostVolumeIsBidirectionalInMountdsOwnNamespace) {
  Config config = ConfigOfGrants();
  RuleConfig rule;
  rule.uids = {Core::kAgent};
  rule.host_volumes = {"data"};
  rule.bidirectional = true;
  config.rules = {rule};
  for (const bool own : {false, true}) {
    config.mounts.own_namespace = own;
    const Grants grants(std::make_shared<const Config>(config), agent_.caller);
    const auto volumes = grants.HostVolumes();
    ASSERT_EQ(volumes.size(), 1U);
    EXPECT_EQ(Has(volumes[0].writable, Propagation::kBidirectional), !own);
    EXPECT_TRUE(Has(volumes[0].writable, Propagation::kHostToTask));
  }
}

TEST_F(GrantsTest, RangesInsideOthersAreLeftOut) {
  RuleConfig one;
  one.uids = {Core::kAgent};
  one.networks = {"default"};
  one.host_ports = {{300, 310}, {100, 200}, {120, 130}};
  RuleConfig other = one;
  other.host_ports = {{201, 250}, {100, 200}, {100, 110}};
  SetRules({one, other});
  const auto networks = services().grants.ListNetworks(agent_).value();
  ASSERT_EQ(networks.size(), 1U);
  std::vector<std::pair<int, int>> ranges;
  for (const PortRange& range : networks[0].host_ports) {
    ranges.emplace_back(range.first, range.last);
  }
  // Ranges that only touch stay apart, because no rule grants 200 and 201 in
  // one mapping.
  EXPECT_EQ(ranges, (std::vector<std::pair<int, int>>{
                        {100, 200}, {201, 250}, {300, 310}}));
}

TEST_F(GrantsTest, OthersGrantsAreForAdministrators) {
  RuleConfig theirs;
  theirs.uids = {Core::kOther, kUnknownUser};
  theirs.host_volumes = {"own", "data"};
  RuleConfig of_root;
  of_root.gids = {0};
  of_root.host_volumes = {"frozen"};
  RuleConfig admin;
  admin.uids = {Core::kAdmin};
  admin.administer = true;
  SetRules({theirs, of_root, admin});
  const auto names = [](const Result<std::vector<HostVolumeGrant>>& grants) {
    GrantWords all;
    for (const HostVolumeGrant& grant : grants.value()) {
      all.push_back(grant.name);
    }
    return all;
  };
  GrantVerbs& grants = services().grants;
  const CallContext root = Core::By(Core::kAdmin);
  for (const GrantsOf& of : {GrantsOf{true, {}}, GrantsOf{false, Core::kOther},
                             GrantsOf{false, 0}}) {
    EXPECT_THAT(grants.ListHostVolumes(agent_, of),
                IsErr(Code::kPermissionDenied));
    EXPECT_THAT(grants.ListFilesystems(agent_, of),
                IsErr(Code::kPermissionDenied));
    EXPECT_THAT(grants.ListNetworks(agent_, of),
                IsErr(Code::kPermissionDenied));
    EXPECT_THAT(grants.ListHostVolumes(root, of), IsOk());
  }
  EXPECT_EQ(names(grants.ListHostVolumes(agent_, {false, Core::kAgent})),
            GrantWords{});
  // An administrator is granted nothing without a rule.
  EXPECT_EQ(names(grants.ListHostVolumes(root)), GrantWords{});
  EXPECT_EQ(names(grants.ListHostVolumes(root, {false, kUnknownUser})),
            GrantWords{"data"});
  // The user database says that root is in the group root.
  EXPECT_EQ(names(grants.ListHostVolumes(root, {false, 0})),
            GrantWords{"frozen"});
  const auto all = grants.ListHostVolumes(root, {true, {}});
  EXPECT_EQ(names(all), (GrantWords{"data", "frozen", "own"}));
  EXPECT_EQ(FindGrant(*all, "own")->uids,
            std::vector<std::uint32_t>{Core::kOther});
  EXPECT_TRUE(FindGrant(*all, "data")->uids.empty());
}

TEST_F(GrantsTest, ACniThatDoesNotAnswerIsAnErrorForThoseWhomItConcerns) {
  RuleConfig cni;
  cni.uids = {Core::kAgent};
  cni.networks = {"cni/net"};
  RuleConfig native;
  native.uids = {Core::kOther};
  native.networks = {"*"};
  SetRules({cni, native});
  executor().FailNext("RunCni", Code::kUnavailable);
  EXPECT_THAT(services().grants.ListNetworks(agent_),
              IsErr(Code::kUnavailable));
  executor().FailNext("RunCni", Code::kUnavailable);
  EXPECT_EQ(services().grants.ListNetworks(Core::By(Core::kOther))->size(), 2U);
  executor().script().Clear();
  EXPECT_EQ(services().grants.ListNetworks(agent_)->size(), 1U);
}

TEST_F(GrantsTest, AReloadShowsAtOnce) {
  EXPECT_TRUE(services().grants.ListHostVolumes(agent_)->empty());
  RuleConfig rule;
  rule.uids = {Core::kAgent};
  rule.host_volumes = {"data:ro"};
  SetRules({rule});
  const auto volumes = services().grants.ListHostVolumes(agent_).value();
  ASSERT_EQ(volumes.size(), 1U);
  EXPECT_EQ(volumes[0].read_only, std::vector{Propagation::kPrivate});
  EXPECT_TRUE(volumes[0].writable.empty());
}

}  // namespace
}  // namespace mountd
