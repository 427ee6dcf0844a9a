// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/policy/policy.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/support/outcome.h"

namespace mountd {
namespace {

using exec::Propagation;

constexpr std::uint32_t kUser = 1000;
constexpr std::uint32_t kGroup = 2000;

Caller By(std::uint32_t uid, std::uint32_t gid = 9999,
          std::vector<std::uint32_t> groups = {}) {
  return {uid, gid, std::move(groups)};
}

// Has one rule for kUser, which tests change, and some volumes and a network.
class PolicyTest : public ::testing::Test {
 protected:
  PolicyTest() {
    config_.host_volumes["data"] = {
        "/data",
        false,
        {Propagation::kPrivate, Propagation::kHostToTask,
         Propagation::kBidirectional}};
    config_.host_volumes["plain"] = {"/plain", false, {Propagation::kPrivate}};
    config_.host_volumes["frozen"] = {"/frozen", true, {Propagation::kPrivate}};
    config_.networks["default"] = {};
    config_.networks["other"] = {};
  }

  RuleConfig& Rule() {
    RuleConfig& rule = config_.rules.emplace_back();
    rule.uids = {kUser};
    return rule;
  }
  std::string Mount(const std::string& volume, bool read_only,
                    Propagation propagation = Propagation::kPrivate) const {
    return Outcome(PolicyNow().mounts().MayMountHostVolume(
        By(kUser), volume, read_only, propagation));
  }
  std::string Network(const std::string& network,
                      const std::vector<std::uint16_t>& ports = {}) const {
    NetworkRequest spec;
    spec.network = network;
    for (const std::uint16_t port : ports) {
      spec.ports.push_back({"", port, 80, exec::kTcp});
    }
    return Outcome(PolicyNow().networks().MayUseNetwork(By(kUser), spec));
  }

  Policy PolicyNow() const {
    return Policy(std::make_shared<const Config>(config_));
  }

  Config config_;
};

constexpr char kOk[] = "Ok";
constexpr char kDenied[] = "PermissionDenied";

TEST_F(PolicyTest, CgroupsAreGrantedByComponents) {
  EXPECT_EQ(Outcome(PolicyNow().MayUseCgroup(By(kUser), "/a")), kDenied);
  Rule().cgroups = {"/x", "/a/b"};
  EXPECT_EQ(Outcome(PolicyNow().MayUseCgroup(By(kUser), "/a/b")), kOk);
  EXPECT_EQ(Outcome(PolicyNow().MayUseCgroup(By(kUser), "/a/b/c")), kOk);
  EXPECT_EQ(Outcome(PolicyNow().MayUseCgroup(By(kUser), "/a/bc")), kDenied);
  EXPECT_EQ(Outcome(PolicyNow().MayUseCgroup(By(kUser), "/a")), kDenied);
  EXPECT_EQ(Outcome(PolicyNow().MayUseCgroup(By(0), "/a/b")), kDenied);
}

TEST_F(PolicyTest, ContainersAreGrantedWithTheirCgroups) {
  RuleConfig& rule = Rule();
  rule.cgroups = {"/a/b"};
  const auto may = [&](const Caller& caller, const char* path,
                       bool tmpfs = false) {
    return Outcome(PolicyNow().mounts().MayMountIn(caller, path, tmpfs));
  };
  EXPECT_EQ(may(By(kUser), "/a/b/c"), kDenied);
  rule.containers = true;
  EXPECT_EQ(may(By(kUser), "/a/b/c"), kOk);
  EXPECT_EQ(may(By(kUser), "/a"), kDenied);
  EXPECT_EQ(may(By(0), "/a/b"), kDenied);
}

// The user decides the content of a tmpfs from the first moment, so a tmpfs in
// a container needs a right of its own.
TEST_F(PolicyTest, ATmpfsInAContainerIsARightOfItsOwn) {
  RuleConfig& rule = Rule();
  rule.cgroups = {"/a/b"};
  const auto may = [&](bool tmpfs) {
    return Outcome(PolicyNow().mounts().MayMountIn(By(kUser), "/a/b", tmpfs));
  };
  rule.container_tmpfs = true;
  EXPECT_EQ(may(true), kDenied);  // the right does not include `containers`
  rule.containers = true;
  EXPECT_EQ(may(true), kOk);
  config_.rules.front().container_tmpfs = false;
  EXPECT_EQ(may(true), kDenied);
  EXPECT_EQ(may(false), kOk);
  // The right of another rule without this cgroup does not apply here.
  Rule().container_tmpfs = true;
  config_.rules.back().containers = true;
  config_.rules.back().cgroups = {"/other"};
  EXPECT_EQ(may(true), kDenied);
}

TEST_F(PolicyTest, TasksAreStoppedAsTheRuleOfTheirCgroupSays) {
  using exec::TaskStop;
  Rule().cgroups = {"/a/b"};
  const auto may = [&](const char* path, TaskStop how) {
    return Outcome(PolicyNow().MayStopTasks(By(kUser), path, how));
  };
  EXPECT_EQ(may("/a/b", TaskStop::kFreeze), kDenied);
  config_.rules.back().stop_tasks = TaskStop::kFreeze;
  EXPECT_EQ(may("/a/b/c", TaskStop::kFreeze), kOk);
  EXPECT_EQ(may("/a/b/c", TaskStop::kKill), kDenied);
  EXPECT_EQ(may("/a", TaskStop::kFreeze), kDenied);
  // The right of another rule does not apply to this rule's cgroups.
  RuleConfig& other = Rule();
  other.cgroups = {"/other"};
  other.stop_tasks = TaskStop::kKill;
  EXPECT_EQ(may("/a/b", TaskStop::kKill), kDenied);
  EXPECT_EQ(may("/other", TaskStop::kFreeze), kOk);
}

TEST_F(PolicyTest, NothingIsAllowedWithoutARule) {
  for (const std::uint32_t uid : {kUser, 0U}) {
    const Caller caller = By(uid, 0);
    EXPECT_EQ(Outcome(PolicyNow().MayPrepare(caller)), kDenied);
    EXPECT_EQ(Outcome(PolicyNow().mounts().MayMountHostVolume(
                  caller, "data", true, Propagation::kPrivate)),
              kDenied);
    EXPECT_EQ(Outcome(PolicyNow().plugins().MayUsePlugin(caller, "nfs")),
              kDenied);
    EXPECT_EQ(Outcome(PolicyNow().plugins().MayRegisterPlugin(caller, "nfs")),
              kDenied);
    EXPECT_EQ(Outcome(PolicyNow().networks().MayUseNetwork(caller, {})),
              kDenied);
    EXPECT_EQ(Outcome(PolicyNow().mounts().MayPropagate(
                  caller, Propagation::kBidirectional)),
              kDenied);
  }
}

TEST_F(PolicyTest, ARuleIsForItsUsersAndGroups) {
  RuleConfig& rule = Rule();
  rule.gids = {kGroup};
  EXPECT_EQ(Outcome(PolicyNow().MayPrepare(By(kUser))), kOk);
  EXPECT_EQ(Outcome(PolicyNow().MayPrepare(By(1, kGroup))), kOk);
  EXPECT_EQ(Outcome(PolicyNow().MayPrepare(By(1, 1, {5, kGroup}))), kOk);
  EXPECT_EQ(Outcome(PolicyNow().MayPrepare(By(1, 1, {5}))), kDenied);
  // A gid that equals the uid does not match.
  EXPECT_EQ(Outcome(PolicyNow().MayPrepare(By(kGroup, kUser))), kDenied);
}

TEST_F(PolicyTest, RulesAddUp) {
  Rule().plugins = {"nfs"};
  Rule().plugins = {"ebs"};
  config_.rules.emplace_back().uids = {1};
  config_.rules.back().plugins = {"secret"};
  EXPECT_EQ(Outcome(PolicyNow().plugins().MayUsePlugin(By(kUser), "nfs")), kOk);
  EXPECT_EQ(Outcome(PolicyNow().plugins().MayUsePlugin(By(kUser), "ebs")), kOk);
  EXPECT_EQ(Outcome(PolicyNow().plugins().MayUsePlugin(By(kUser), "secret")),
            kDenied);
}

TEST_F(PolicyTest, AHostVolumeByName) {
  Rule().host_volumes = {"data"};
  EXPECT_EQ(Mount("data", false), kOk);
  EXPECT_EQ(Mount("data", true), kOk);
  EXPECT_EQ(Mount("plain", true), kDenied);
  EXPECT_EQ(Mount("nowhere", true), "NotFound");
}

TEST_F(PolicyTest, AHostVolumeForReadingOnly) {
  Rule().host_volumes = {"data:ro"};
  EXPECT_EQ(Mount("data", true), kOk);
  EXPECT_EQ(Mount("data", false), kDenied);
}

TEST_F(PolicyTest, AllHostVolumes) {
  Rule().host_volumes = {"*:ro", "plain"};
  EXPECT_EQ(Mount("data", true), kOk);
  EXPECT_EQ(Mount("data", false), kDenied);
  EXPECT_EQ(Mount("plain", false), kOk);
  config_.rules[0].host_volumes = {"*"};
  EXPECT_EQ(Mount("data", false), kOk);
}

TEST_F(PolicyTest, AVolumeDeclaredReadOnlyIsNeverWritable) {
  Rule().host_volumes = {"*"};
  EXPECT_EQ(Mount("frozen", true), kOk);
  EXPECT_EQ(Mount("frozen", false), kDenied);
}

TEST_F(PolicyTest, AVolumeOfOtherUsersIsNobodyElses) {
  Rule().host_volumes = {"*"};
  config_.rules[0].administer = true;
  config_.host_volumes["data"].uids = {kUser + 1};
  EXPECT_EQ(Mount("data", true), kDenied);
  EXPECT_EQ(Mount("plain", true), kOk);
  config_.host_volumes["data"].uids.push_back(kUser);
  EXPECT_EQ(Mount("data", false), kOk);
  // An owner of the volume still needs a rule.
  config_.rules[0].host_volumes.clear();
  EXPECT_EQ(Mount("data", true), kDenied);
}

TEST_F(PolicyTest, AFilesystemIsHeldToTheSameAsAHostVolume) {
  const auto mount = [&](const std::string& name, bool read_only) {
    return Outcome(PolicyNow().mounts().MayMountFilesystem(
        By(kUser), name, read_only, Propagation::kPrivate));
  };
  config_.filesystems["homes"] = {"nfs", "server:/homes"};
  Rule().host_volumes = {"*"};
  EXPECT_EQ(mount("homes", true), kDenied);
  EXPECT_EQ(mount("data", true), "NotFound") << "that is a host volume";
  config_.rules[0].filesystems = {"homes:ro"};
  EXPECT_EQ(mount("homes", true), kOk);
  EXPECT_EQ(mount("homes", false), kDenied);
  config_.rules[0].filesystems = {"*"};
  EXPECT_EQ(mount("homes", false), kOk);
  config_.filesystems["homes"].read_only = true;
  EXPECT_EQ(mount("homes", false), kDenied);
  config_.filesystems["homes"].uids = {kUser + 1};
  EXPECT_EQ(mount("homes", true), kDenied);
}

// Later mounts are not read-only. If root has not declared both for the volume,
// only users who may write to it get them.
TEST_F(PolicyTest, WhoMayOnlyReadGetsNoLaterMounts) {
  Rule().host_volumes = {"data:ro"};
  EXPECT_EQ(Mount("data", true, Propagation::kHostToTask), kDenied);
  EXPECT_EQ(Mount("data", true), kOk);
  Rule().host_volumes = {"data"};
  EXPECT_EQ(Mount("data", true, Propagation::kHostToTask), kOk);
  config_.rules.pop_back();
  config_.host_volumes["data"].read_only = true;
  EXPECT_EQ(Mount("data", true, Propagation::kHostToTask), kOk);
}

TEST_F(PolicyTest, PropagationMustBeDeclared) {
  Rule().host_volumes = {"*"};
  config_.rules[0].bidirectional = true;
  EXPECT_EQ(Mount("data", false, Propagation::kHostToTask), kOk);
  EXPECT_EQ(Mount("data", false, Propagation::kBidirectional), kOk);
  EXPECT_EQ(Mount("plain", false, Propagation::kHostToTask), kDenied);
  EXPECT_EQ(Mount("plain", false, Propagation::kBidirectional), kDenied);
}

TEST_F(PolicyTest, BidirectionalNeedsARuleToo) {
  Rule().host_volumes = {"*"};
  EXPECT_EQ(Mount("data", false, Propagation::kHostToTask), kOk);
  EXPECT_EQ(Mount("data", false, Propagation::kBidirectional), kDenied);
  EXPECT_EQ(Outcome(PolicyNow().mounts().MayPropagate(
                By(kUser), Propagation::kBidirectional)),
            kDenied);
  EXPECT_EQ(Outcome(PolicyNow().mounts().MayPropagate(
                By(kUser), Propagation::kHostToTask)),
            kOk);
  Rule().bidirectional = true;
  EXPECT_EQ(Mount("data", false, Propagation::kBidirectional), kOk);
}

TEST_F(PolicyTest, UsingAPluginIsNotRegisteringIt) {
  Rule().plugins = {"nfs"};
  EXPECT_EQ(Outcome(PolicyNow().plugins().MayUsePlugin(By(kUser), "nfs")), kOk);
  EXPECT_EQ(Outcome(PolicyNow().plugins().MayUsePlugin(By(kUser), "nfs2")),
            kDenied);
  EXPECT_EQ(Outcome(PolicyNow().plugins().MayRegisterPlugin(By(kUser), "nfs")),
            kDenied);
  config_.rules[0] = {};
  Rule().register_plugins = {"*"};
  EXPECT_EQ(Outcome(PolicyNow().plugins().MayRegisterPlugin(By(kUser), "nfs")),
            kOk);
  EXPECT_EQ(Outcome(PolicyNow().plugins().MayUsePlugin(By(kUser), "nfs")),
            kDenied);
}

TEST_F(PolicyTest, ControllingAPluginIsAnotherThingThanUsingIt) {
  RuleConfig& user = Rule();
  user.plugins = {"*"};
  user.register_plugins = {"*"};
  EXPECT_EQ(Outcome(PolicyNow().plugins().MayControlPlugin(By(kUser), "nfs")),
            kDenied);
  config_.rules[0] = {};
  Rule().control_plugins = {"nfs"};
  EXPECT_EQ(Outcome(PolicyNow().plugins().MayControlPlugin(By(kUser), "nfs")),
            kOk);
  EXPECT_EQ(Outcome(PolicyNow().plugins().MayControlPlugin(By(kUser), "ebs")),
            kDenied);
  EXPECT_EQ(Outcome(PolicyNow().plugins().MayUsePlugin(By(kUser), "nfs")),
            kDenied);
}

TEST_F(PolicyTest, IdsMustLieInOneRange) {
  const auto map = [&](std::uint32_t on_disk, std::uint32_t count) {
    exec::IdMapPlan ids;
    ids.count = 1;
    ids.extents[0] = {on_disk, 1, count};
    return Outcome(PolicyNow().mounts().MayMapIds(By(kUser), ids));
  };
  Rule();
  EXPECT_EQ(Outcome(PolicyNow().mounts().MayMapIds(By(kUser), {})), kOk);
  EXPECT_EQ(map(1000, 1), kDenied);
  config_.rules[0].ids = {{1000, 1009}, {1010, 1019}};
  EXPECT_EQ(map(1000, 10), kOk);
  EXPECT_EQ(map(1000, 11), kDenied);
  EXPECT_EQ(map(1019, 1), kOk);
  EXPECT_EQ(map(999, 1), kDenied);
  EXPECT_EQ(map(0, 1), kDenied);
  EXPECT_EQ(map(1000, 0xFFFFFFFF), kDenied);
}

// A group may have the number of another user's, so an id counts as the
// caller's own only for what it is: its uid for users, its gid for groups.
TEST_F(PolicyTest, OnesOwnIdsAreMappedWithoutARule) {
  const auto map = [&](const Caller& caller, exec::IdExtent user,
                       exec::IdExtent group) {
    exec::IdMapPlan ids;
    ids.count = 1;
    ids.extents[0] = user;
    ids.gid_count = 1;
    ids.gids[0] = group;
    return Outcome(PolicyNow().mounts().MayMapIds(caller, ids));
  };
  Rule();
  const Caller user = By(kUser, kGroup, {3000});
  const exec::IdExtent own_user{kUser, 100999, 1};
  const exec::IdExtent own_group{kGroup, 100999, 1};
  EXPECT_EQ(map(user, own_user, own_group), kOk);
  EXPECT_EQ(map(user, own_user, {kUser, 100999, 1}), kDenied);
  EXPECT_EQ(map(user, {kGroup, 100999, 1}, own_group), kDenied);
  EXPECT_EQ(map(user, own_user, {3000, 100999, 1}), kDenied)
      << "the primary group alone";
  EXPECT_EQ(map(user, {kUser, 100999, 2}, own_group), kDenied);
  EXPECT_EQ(map(user, own_user, {kGroup, 100999, 2}), kDenied);
  EXPECT_EQ(map(user, {kUser - 1, 100999, 2}, own_group), kDenied);
  const exec::IdExtent roots{0, 100999, 1};
  EXPECT_EQ(map(By(0, 0), roots, roots), kDenied);
  EXPECT_EQ(map(user, roots, own_group), kDenied);
  EXPECT_EQ(map(user, own_user, roots), kDenied);
  config_.rules[0].ids = {{3000, 3009}};
  EXPECT_EQ(map(user, own_user, {3000, 100999, 10}), kOk);
  exec::IdMapPlan both;
  both.count = 1;
  both.extents[0] = own_user;
  EXPECT_EQ(Outcome(PolicyNow().mounts().MayMapIds(user, both)), kDenied)
      << "a group of the user's number";
  EXPECT_EQ(Outcome(PolicyNow().mounts().MayMapIds(By(kUser, kUser), both)),
            kOk);
}

TEST_F(PolicyTest, RootsFilesAreTheCallersInVolumesOfTheSameRule) {
  const auto map = [&](const Caller& caller, exec::IdExtent extent,
                       const IdsSource& source) {
    exec::IdMapPlan ids;
    ids.count = 1;
    ids.extents[0] = extent;
    return Outcome(PolicyNow().mounts().MayMapIds(caller, ids, source));
  };
  using exec::SourceKind;
  const IdsSource data{SourceKind::kHostVolume, "data"};
  const IdsSource frozen{SourceKind::kHostVolume, "frozen"};
  const IdsSource frozen_ro{SourceKind::kHostVolume, "frozen", true};
  const IdsSource nfs{SourceKind::kPublishedVolume, "nfs"};
  const IdsSource ebs{SourceKind::kPublishedVolume, "ebs"};
  const IdsSource homes{SourceKind::kFilesystem, "data"};
  const Caller user = By(kUser, kUser);
  const exec::IdExtent root{0, kUser, 1};
  RuleConfig& rule = Rule();
  rule.host_volumes = {"data", "frozen:ro"};
  rule.filesystems = {"*"};
  rule.plugins = {"nfs"};
  EXPECT_EQ(map(user, root, data), kDenied);
  config_.rules[0].root_as_caller = true;
  EXPECT_EQ(map(user, root, data), kOk);
  EXPECT_EQ(map(user, root, nfs), kOk);
  EXPECT_EQ(map(user, root, frozen_ro), kOk);
  EXPECT_EQ(map(user, root, frozen), kDenied) << "for writing";
  EXPECT_EQ(map(user, root, ebs), kDenied);
  EXPECT_EQ(map(user, root, homes), kDenied) << "no volume";
  EXPECT_EQ(map(By(kUser, kGroup), root, data), kDenied)
      << "root's group as another group";
  EXPECT_EQ(map(By(1001, 1001), {0, 1001, 1}, data), kDenied);
  EXPECT_EQ(map(user, {0, kUser + 1, 1}, data), kDenied);
  EXPECT_EQ(map(user, {0, kUser, 2}, data), kDenied);
  EXPECT_EQ(map(By(0, 0), {0, 0, 1}, data), kDenied);
  // Another rule of the user's that has no root_as_caller grants the plugin.
  Rule().plugins = {"ebs"};
  EXPECT_EQ(map(user, root, ebs), kDenied);
}

TEST_F(PolicyTest, TheExecutorIsToldWhoseIdsTheyAre) {
  Rule();
  RuleConfig& by_group = config_.rules.emplace_back();
  by_group.gids = {3000};
  const Result<exec::CallerPlan> plan =
      PolicyNow().mounts().MayMapIds(By(kUser, kGroup, {2999, 3000}), {});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->uid, kUser);
  ASSERT_EQ(plan->gid_count, 2U);
  EXPECT_EQ(plan->gids[0], kGroup);
  EXPECT_EQ(plan->gids[1], 3000U);
}

TEST_F(PolicyTest, AGroupThatPassesIsInIds) {
  Rule().ids = {{100000, 165535}};
  const Caller user = By(kUser, kGroup, {3000});
  EXPECT_EQ(Outcome(PolicyNow().MayLetPass(user, 100000)), kOk);
  for (const std::uint32_t group : {0U, kGroup, 3000U, 99999U, 165536U}) {
    EXPECT_EQ(Outcome(PolicyNow().MayLetPass(user, group)), kDenied) << group;
  }
  EXPECT_EQ(Outcome(PolicyNow().MayLetPass(By(1001), 100000)), kDenied);
}

TEST_F(PolicyTest, NetworksByName) {
  Rule().networks = {"default"};
  EXPECT_EQ(Network("default"), kOk);
  EXPECT_EQ(Network("other"), kDenied);
  EXPECT_EQ(Network("nowhere"), "NotFound");
}

TEST_F(PolicyTest, CniNetworksAreGrantedByNamesOfTheirOwn) {
  config_.cni.config_dirs = {"/etc/cni/net.d"};
  const auto network = [&](const std::string& rules) {
    config_.rules.clear();
    Rule().networks = {rules};
    NetworkRequest spec;
    spec.mode = NetworkMode::kCni;
    spec.network = "net";
    return Outcome(PolicyNow().networks().MayUseNetwork(By(kUser), spec));
  };
  EXPECT_EQ(network("cni/net"), kOk);
  EXPECT_EQ(network("cni/*"), kOk);
  for (const char* other : {"*", "net", "cni/other"}) {
    EXPECT_EQ(network(other), kDenied) << other;
  }
}

TEST_F(PolicyTest, EveryPortMustLieInARange) {
  Rule().networks = {"*"};
  EXPECT_EQ(Network("default", {20000}), kDenied);
  config_.rules[0].host_ports = {{20000, 20010}, {80, 80}};
  EXPECT_EQ(Network("default", {80, 20000, 20010}), kOk);
  EXPECT_EQ(Network("default", {81}), kDenied);
  EXPECT_EQ(Network("default", {19999}), kDenied);
  EXPECT_EQ(Network("default", {80, 20011}), kDenied);
}

TEST_F(PolicyTest, DirectoriesOnlyWithAllocRoots) {
  RuleConfig& rule = Rule();
  EXPECT_EQ(Outcome(PolicyNow().mounts().MayPassDirectory(By(kUser))), kDenied);
  rule.alloc_roots = {"/alloc"};
  EXPECT_EQ(Outcome(PolicyNow().mounts().MayPassDirectory(By(kUser))), kOk);
  EXPECT_EQ(Outcome(PolicyNow().mounts().MayPassDirectory(By(1))), kDenied);
}

TEST_F(PolicyTest, TheExecutorIsToldTheGroupsThatRulesName) {
  Rule().alloc_roots = {"/alloc"};
  config_.rules.emplace_back().gids = {kGroup};
  std::vector<std::uint32_t> groups(100, 7);
  groups.push_back(kGroup);
  const auto plan = PolicyNow().mounts().MayPassDirectory(By(kUser, 5, groups));
  ASSERT_EQ(Outcome(plan), kOk);
  EXPECT_EQ(plan->uid, kUser);
  ASSERT_EQ(plan->gid_count, 2U);
  EXPECT_EQ(plan->gids[0], 5U);
  EXPECT_EQ(plan->gids[1], kGroup);
  const auto full = PolicyNow().mounts().MayPassDirectory(
      By(kUser, 5, std::vector<std::uint32_t>(100, kGroup)));
  EXPECT_EQ(full->gid_count, full->gids.size());
}

TEST_F(PolicyTest, FilesAreGivenToOnesOwnIdsAndThoseOfRules) {
  RuleConfig& rule = Rule();
  const Caller caller = By(kUser, 5, {6, 7});
  EXPECT_EQ(Outcome(PolicyNow().mounts().MayGiveFilesTo(caller, kUser, 5)),
            kDenied);
  rule.alloc_roots = {"/alloc"};
  EXPECT_EQ(Outcome(PolicyNow().mounts().MayGiveFilesTo(caller, kUser, 5)),
            kOk);
  EXPECT_EQ(Outcome(PolicyNow().mounts().MayGiveFilesTo(caller, kUser, 8)),
            kDenied);
  EXPECT_EQ(Outcome(PolicyNow().mounts().MayGiveFilesTo(caller, 70000, 5)),
            kDenied);
  EXPECT_EQ(Outcome(PolicyNow().mounts().MayGiveFilesTo(caller, 0, 0)),
            kDenied);
  rule.ids = {{70000, 70001}};
  EXPECT_EQ(Outcome(PolicyNow().mounts().MayGiveFilesTo(caller, 70000, 70001)),
            kOk);
  EXPECT_EQ(Outcome(PolicyNow().mounts().MayGiveFilesTo(caller, 70002, 70001)),
            kDenied);
  // The plan names the group to the executor, because no rule names it.
  const auto plan = PolicyNow().mounts().MayGiveFilesTo(caller, kUser, 7);
  ASSERT_EQ(Outcome(plan), kOk);
  ASSERT_EQ(plan->gid_count, 2U);
  EXPECT_EQ(plan->gids[1], 7U);
}

TEST_F(PolicyTest, OwnersAndAdministratorsUseAThing) {
  Rule();
  EXPECT_EQ(Outcome(PolicyNow().MayUse(By(kUser), kUser, "it")), kOk);
  EXPECT_EQ(Outcome(PolicyNow().MayUse(By(kUser), 1, "it")), kDenied);
  EXPECT_FALSE(PolicyNow().MayAdminister(By(kUser)));
  EXPECT_EQ(Outcome(PolicyNow().MayUse(By(0), kUser, "it")), kOk);
  EXPECT_TRUE(PolicyNow().MayAdminister(By(0)));
  Rule().administer = true;
  EXPECT_TRUE(PolicyNow().MayAdminister(By(kUser)));
  EXPECT_EQ(Outcome(PolicyNow().MayUse(By(kUser), 1, "it")), kOk);
  // An administrator is still bound by the rules for plugins.
  EXPECT_EQ(Outcome(PolicyNow().plugins().MayUsePlugin(By(kUser), "nfs")),
            kDenied);
}

// The authority holds for one call, and is recorded beside the rules.
TEST_F(PolicyTest, AnAuthorityMakesAnAdministratorAndNoMore) {
  Rule().administer = false;
  const Result<void> refused = PolicyNow().MayUse(By(kUser), 1, "it");
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().administrator_may);
  Caller allowed = By(kUser);
  allowed.authority = "org.mountd1.release";
  const auto decisions = std::make_shared<Decisions>();
  const Policy policy(std::make_shared<const Config>(config_), decisions);
  EXPECT_EQ(Outcome(policy.MayUse(allowed, 1, "it")), kOk);
  EXPECT_EQ(decisions->Rules(), "org.mountd1.release");
  EXPECT_EQ(Outcome(policy.MustAdminister(allowed, "see", "it")), kOk);
  const auto plugin = policy.plugins().MayUsePlugin(allowed, "nfs");
  ASSERT_EQ(Outcome(plugin), kDenied);
  EXPECT_FALSE(plugin.error().administrator_may);
  EXPECT_EQ(decisions->Rules(), "");
  decisions->AllowedByRule(12);
  EXPECT_EQ(Outcome(policy.MayUse(allowed, 1, "it")), kOk);
  EXPECT_EQ(decisions->Rules(), "12,org.mountd1.release");
}

TEST_F(PolicyTest, ARefusalSaysWhatIsMissing) {
  Rule().networks = {"default"};
  NetworkRequest spec;
  spec.ports = {{"", 81, 80, exec::kTcp}};
  const auto refused = PolicyNow().networks().MayUseNetwork(By(kUser), spec);
  EXPECT_EQ(MessageOf(refused),
            "map host port 81: no rule grants it to this user; add it to "
            "host_ports in mountd.toml");
}

}  // namespace
}  // namespace mountd
