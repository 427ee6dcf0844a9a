// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Leases and the fences of their lapses, by a clock that the tests set.
#include "mountd/service/leases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/fakes/failing_store.h"
#include "tests/support/matchers.h"
#include "tests/support/outcome.h"
#include "tests/unit/mountd/service/core_fixture.h"

namespace mountd {
namespace {

using exec::TaskStop;

constexpr std::uint64_t kSecond = 1'000'000;
constexpr std::uint64_t kCgroup = 77;

Config LeaseConfig() {
  Config config = Core::DefaultConfig();
  config.rules[0].cgroups = {"/agent"};
  config.rules[0].stop_tasks = TaskStop::kKill;
  config.limits.leases_per_uid = 3;
  return config;
}

class LeasesTest : public CoreFixture {
 protected:
  LeasesTest() : CoreFixture(LeaseConfig()) {}

  void SetUp() override {
    executor().PutCgroup(kCgroup, "/agent/web");
    ASSERT_THAT(core_.Recover(), IsOk());
    ASSERT_THAT(Prepare("web"), IsOk());
  }
  Result<std::string> Prepare(const std::string& name,
                              const std::string& scope = "prod",
                              bool required = false) {
    return services().allocations.PrepareAllocation(
        agent_, NameOf(name), scope, kCgroup, /*group=*/0, required);
  }
  static LeaseRecord Heartbeat(const std::string& name = "lease",
                               const std::string& allocation = "web") {
    LeaseRecord lease;
    lease.key.name = name;
    lease.allocation = allocation;
    lease.kind = LeaseKind::kHeartbeat;
    lease.timeout_ms = 10'000;
    return lease;
  }
  Result<LeaseRecord> Acquire(LeaseRecord lease,
                              std::uint32_t uid = Core::kAgent) {
    return services().lease_verbs.AcquireLease(Core::By(uid), std::move(lease),
                                               nullptr);
  }
  Result<LeaseRecord> Renew(const std::string& name = "lease") {
    return services().lease_verbs.RenewLease(agent_, NameOf(name));
  }
  void Pass(std::uint64_t seconds) { core_.boot_us += seconds * kSecond; }
  // Does what the watch does with leases that are due.
  void LapseDue() {
    for (const Leases::Due& due : services().leases.DueNow()) {
      ASSERT_THAT(services().leases.Lapse(due.key, due.reason), IsOk());
    }
  }
  Result<FenceRecord> Fence(const std::string& allocation = "web") {
    MOUNTD_TRY(services().fences.StopTasks(allocation));
    return services().fences.Finish(allocation);
  }
  static BindMountRequest Wish(const std::string& name = "m") {
    BindMountRequest spec;
    spec.allocation = "web";
    spec.task = "task";
    spec.name = name;
    spec.wish.source = "data";
    return spec;
  }
  Result<MountConfig> Bind(const std::string& name = "m") {
    return services().mounts.BindMount(agent_, Wish(name));
  }
  Result<NetworkStatus> Network() {
    NetworkRequest request;
    request.network = "default";
    return services().networks.SetupNetwork(agent_, NameOf("web"), request, {});
  }
  // Makes the call, and lets the lease lapse while the plan is under way.
  std::string WhileBlocked(const std::string& plan,
                           const std::function<std::string()>& call) {
    return WhileBlocked(executor().script(), plan, call, [this] { Pass(10); });
  }
  template <typename E>
  std::string WhileBlocked(CallScript<E>& script, const std::string& method,
                           const std::function<std::string()>& call,
                           const std::function<void()>& meanwhile) {
    script.Block(method);
    std::string outcome;
    std::thread caller([&] { outcome = call(); });
    EXPECT_TRUE(script.AwaitBlocked(method));
    meanwhile();
    script.Unblock(method);
    caller.join();
    return outcome;
  }
  csi::PublishSpec Volume(const std::string& allocation = "web") {
    csi::PublishSpec spec;
    spec.allocation = allocation;
    spec.alias = "data";
    spec.plugin = "nfs";
    spec.volume_id = "v1";
    return spec;
  }
  std::string Publish(const csi::PublishSpec& spec) {
    return Outcome(services().volumes.PublishVolume(agent_, spec, UniqueFd()));
  }
  void Die(const std::string& allocation = "web") {
    executor().SetHealth("nfs/publish/" + allocation + "/" +
                             VolumeKey::Derive("nfs", "v1").str(),
                         exec::MountHealth::kDead);
  }
  // Returns how many calls made something.
  std::size_t Ups() {
    return client().script().Count("NodeStageVolume") +
           client().script().Count("NodePublishVolume");
  }
  std::optional<AllocationRecord> Record(const std::string& name = "web") {
    return core_.state->allocations.GetAllocation(name).value();
  }
};

TEST_F(LeasesTest, ALapseBeginsAtTheDeadlineAndNotWhenItIsNoticed) {
  ASSERT_THAT(Acquire(Heartbeat()), IsOk());
  Pass(9);
  EXPECT_THAT(Bind("early"), IsOk());
  Pass(1);
  // Nobody has looked at the clock since.
  const auto late = Bind("late");
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kFailedPrecondition);
  EXPECT_NE(late.error().detail.find("lease lapsed"), std::string::npos);
  EXPECT_EQ(Outcome(Network()), "FailedPrecondition");
  EXPECT_EQ(Outcome(Renew()), "FailedPrecondition");
  EXPECT_EQ(Outcome(Acquire(Heartbeat())), "FailedPrecondition");
  EXPECT_EQ(services().leases.List().front().state, LeaseState::kLapsed);
}

TEST_F(LeasesTest, ARenewalMovesTheDeadlineAndTheWallClockDoesNot) {
  ASSERT_THAT(Acquire(Heartbeat()), IsOk());
  core_.wall_us = 1;
  Pass(9);
  EXPECT_THAT(Renew(), IsOk());
  core_.wall_us = 4'000'000'000'000'000;
  Pass(9);
  EXPECT_THAT(Bind(), IsOk());
  EXPECT_TRUE(services().leases.DueNow().empty());
  // A lease that was renewed after the watch saw it due does not lapse.
  EXPECT_FALSE(
      services().leases.Lapse({Core::kAgent, "lease"}, "late")->lapsed);
}

// A disk that is full lets the allocation end, and not its lease.
TEST_F(LeasesTest, ALeaseThatOutlivesItsAllocationBindsNoLaterOne) {
  for (const bool lapses : {false, true}) {
    SCOPED_TRACE(lapses);
    ASSERT_THAT(Acquire(Heartbeat()), IsOk());
    {
      const FailingWrites leases(core_.state->database(), "DELETE", "leases");
      const FailingWrites deadlines(core_.boot->database(), "DELETE",
                                    "lease_deadlines");
      if (lapses) {
        Pass(10);
        LapseDue();
        ASSERT_THAT(Fence(), IsOk());
      } else {
        ASSERT_THAT(
            services().allocations.ReleaseAllocation(agent_, NameOf("web")),
            IsOk());
      }
      EXPECT_FALSE(Record());
      // The new allocation would have the old one's lease.
      EXPECT_FALSE(Prepare("web"));
      EXPECT_FALSE(Record());
    }
    ASSERT_THAT(Prepare("web"), IsOk());
    EXPECT_TRUE(services().leases.List().empty());
    EXPECT_THAT(Bind(), IsOk());
    core_.Restart();
    ASSERT_THAT(core_.Recover(), IsOk());
    EXPECT_TRUE(services().leases.List().empty());
    EXPECT_THAT(Bind("more"), IsOk());
  }
}

TEST_F(LeasesTest, AFenceReleasesTheAllocationAndLeavesAReceipt) {
  ASSERT_THAT(Bind(), IsOk());
  ASSERT_THAT(Acquire(Heartbeat()), IsOk());
  Pass(10);
  LapseDue();
  Pass(1);
  const auto fence = Fence();
  ASSERT_THAT(fence, IsOk());
  EXPECT_EQ(fence->state, FenceState::kDone);
  EXPECT_EQ(fence->lease, (LeaseKey{Core::kAgent, "lease"}));
  EXPECT_EQ(fence->done.boot_us - fence->lapsed.boot_us, kSecond);
  EXPECT_NE(fence->searched.boot_us, 0U);
  EXPECT_TRUE(fence->volumes_detached);
  EXPECT_FALSE(Record());
  EXPECT_TRUE(services().leases.List().empty());
  const auto get = [&](std::uint32_t uid) {
    return Outcome(
        services().lease_verbs.GetFence(Core::By(uid), NameOf("web")));
  };
  EXPECT_EQ(get(Core::kAgent), "Ok");
  EXPECT_EQ(get(Core::kAdmin), "Ok");
  EXPECT_EQ(get(Core::kOther), "PermissionDenied");
  // The receipt ends with the name's next allocation.
  ASSERT_THAT(Prepare("web"), IsOk());
  EXPECT_EQ(get(Core::kAgent), "NotFound");
  EXPECT_THAT(Bind(), IsOk());
}

TEST_F(LeasesTest, AKeptAllocationStaysFencedUntilTheLeaseIsAcquiredAgain) {
  LeaseRecord lease = Heartbeat();
  lease.on_lapse = OnLapse::kKeep;
  ASSERT_THAT(Bind(), IsOk());
  ASSERT_THAT(Acquire(lease), IsOk());
  Pass(10);
  LapseDue();
  EXPECT_EQ(Outcome(Acquire(lease)), "FailedPrecondition");
  const auto fence = Fence();
  ASSERT_THAT(fence, IsOk());
  EXPECT_FALSE(fence->volumes_detached);
  EXPECT_TRUE(Record());
  EXPECT_EQ(Outcome(Bind("other")), "FailedPrecondition");
  // Not even after a start, or without the lease.
  core_.Restart();
  ASSERT_THAT(core_.Recover(), IsOk());
  EXPECT_EQ(Outcome(Bind("other")), "FailedPrecondition");
  ASSERT_THAT(
      services().lease_verbs.ReleaseLease(agent_, {Core::kAgent, "lease"}),
      IsOk());
  EXPECT_EQ(Outcome(Bind("other")), "FailedPrecondition");
  ASSERT_THAT(Acquire(lease), IsOk());
  EXPECT_THAT(Bind("other"), IsOk());
}

TEST_F(LeasesTest, AVolumeThatWaitsForTasksIsNotDetached) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  LeaseRecord lease = Heartbeat();
  lease.on_lapse = OnLapse::kKeep;
  ASSERT_THAT(Acquire(lease), IsOk());
  ASSERT_EQ(Publish(Volume()), "Ok");
  exec::Holder task;
  task.pid = 7;
  executor().AddCopy(0, "nfs", task, kCgroup);
  ASSERT_THAT(services().volumes.UnpublishVolume(
                  agent_, NameOf("web"), NameOf("data"), OnTasks::kIgnore),
              IsOk());
  ASSERT_TRUE(core_.volumes->Of("web")->empty());
  Pass(10);
  LapseDue();
  const auto fence = Fence();
  ASSERT_THAT(fence, IsOk());
  EXPECT_FALSE(fence->volumes_detached);
}

TEST_F(LeasesTest, AReceiptOfALiftedFenceSaysNothingOfVolumes) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  LeaseRecord lease = Heartbeat();
  lease.on_lapse = OnLapse::kKeep;
  ASSERT_THAT(Acquire(lease), IsOk());
  Pass(10);
  LapseDue();
  ASSERT_THAT(Fence(), IsOk());
  const auto get = [&] {
    return services().lease_verbs.GetFence(agent_, NameOf("web")).value();
  };
  EXPECT_TRUE(get().volumes_detached);
  ASSERT_THAT(Acquire(lease), IsOk());
  ASSERT_EQ(Publish(Volume()), "Ok");
  EXPECT_TRUE(get().lifted);
  EXPECT_FALSE(get().volumes_detached);
}

TEST_F(LeasesTest, TasksAreStoppedBeforeAnythingElse) {
  LeaseRecord lease = Heartbeat();
  lease.stop_tasks = TaskStop::kKill;
  const auto mount = Bind();
  ASSERT_THAT(mount, IsOk());
  ASSERT_THAT(Acquire(lease), IsOk());
  exec::Holder task;
  task.pid = 7;
  executor().AddCopy(mount->record.mount_id, "", task, kCgroup);
  Pass(10);
  LapseDue();
  EXPECT_EQ(Outcome(services().fences.Finish("web")), "FailedPrecondition");
  executor().FailNext("StopTasks", Code::kBusy);
  EXPECT_EQ(Outcome(Fence()), "Busy");
  EXPECT_TRUE(Record());
  EXPECT_EQ(services().leases.Pending().front().attempts, 1U);
  const auto fence = Fence();
  ASSERT_THAT(fence, IsOk());
  EXPECT_TRUE(fence->had_tasks);
  EXPECT_EQ(fence->copies, "");
  EXPECT_FALSE(Record());
}

// The executor looks for the rule of this user.
// An agent that lives on may start its tasks again.
TEST_F(LeasesTest, TasksThatStartAfterTheStopAreStoppedToo) {
  LeaseRecord lease = Heartbeat();
  lease.stop_tasks = TaskStop::kKill;
  const auto mount = Bind();
  ASSERT_THAT(mount, IsOk());
  ASSERT_THAT(Acquire(lease), IsOk());
  Pass(10);
  LapseDue();
  ASSERT_THAT(services().fences.StopTasks("web"), IsOk());
  exec::Holder task;
  task.pid = 7;
  executor().AddCopy(mount->record.mount_id, "", task, kCgroup);
  EXPECT_EQ(Outcome(services().fences.Finish("web")), "Busy");
  const auto fence = Fence();
  ASSERT_THAT(fence, IsOk());
  EXPECT_TRUE(fence->had_tasks);
  EXPECT_TRUE(fence->volumes_detached);
}

TEST_F(LeasesTest, TasksAreStoppedInTheNameOfTheLeasesOwner) {
  LeaseRecord lease = Heartbeat();
  lease.stop_tasks = TaskStop::kKill;
  ASSERT_THAT(Acquire(lease), IsOk());
  Pass(10);
  LapseDue();
  ASSERT_THAT(services().fences.StopTasks("web"), IsOk());
  const std::vector<exec::Request> plans = executor().plans();
  const auto stops =
      std::find_if(plans.begin(), plans.end(), [](const exec::Request& plan) {
        return plan.kind == exec::PlanKind::kStopTasks;
      });
  ASSERT_NE(stops, plans.end());
  EXPECT_EQ(stops->body.stop_tasks.owner.uid, Core::kAgent);
}

// A rule that is gone at the lapse must not hold up the fence for ever.
TEST_F(LeasesTest, WithoutTheRuleTheFenceStopsNoTasksAndGoesOn) {
  LeaseRecord lease = Heartbeat();
  lease.stop_tasks = TaskStop::kKill;
  ASSERT_THAT(Acquire(lease), IsOk());
  executor().script().FailNext(
      "StopTasks", MakeError(Code::kPermissionDenied, "stop tasks", "web",
                             "no rule grants it"));
  Pass(10);
  LapseDue();
  ASSERT_THAT(services().fences.StopTasks("web"), IsOk());
  const auto pending = services().leases.Pending();
  ASSERT_EQ(pending.size(), 1U);
  EXPECT_EQ(pending[0].stop_tasks, TaskStop::kNo);
  EXPECT_THAT(pending[0].error, ::testing::HasSubstr("no rule grants it"));
  ASSERT_THAT(services().fences.StopTasks("web"), IsOk());
  EXPECT_EQ(executor().script().Count("StopTasks"), 1U);
  ASSERT_THAT(services().fences.Finish("web"), IsOk());
}

// A plan that the executor does not take says nothing of the rules, so the
// tasks must not be left running.
TEST_F(LeasesTest, OnlyTheRulesKeepAFenceFromStoppingTasks) {
  LeaseRecord lease = Heartbeat();
  lease.stop_tasks = TaskStop::kKill;
  ASSERT_THAT(Acquire(lease), IsOk());
  executor().FailNext("StopTasks", Code::kInvalidArgument);
  Pass(10);
  LapseDue();
  EXPECT_EQ(Outcome(services().fences.StopTasks("web")), "InvalidArgument");
  EXPECT_EQ(services().leases.Pending().front().stop_tasks, TaskStop::kKill);
  ASSERT_THAT(services().fences.StopTasks("web"), IsOk());
  EXPECT_EQ(services().leases.Pending().front().stop_tasks, TaskStop::kKill);
}

TEST_F(LeasesTest, CopiesThatRemainAreToldAndTheFenceGoesOn) {
  const auto mount = Bind();
  ASSERT_THAT(mount, IsOk());
  ASSERT_THAT(Acquire(Heartbeat()), IsOk());
  exec::Holder task;
  task.pid = 7;
  executor().AddCopy(mount->record.mount_id, "", task, kCgroup);
  Pass(10);
  LapseDue();
  EXPECT_EQ(Outcome(Fence()), "Busy");
  const FenceRecord pending = services().leases.Pending().front();
  EXPECT_NE(pending.copies.find("pid 7"), std::string::npos) << pending.copies;
  EXPECT_FALSE(pending.error.empty());
  EXPECT_EQ(Outcome(Bind("other")), "FailedPrecondition");
  executor().EndProcesses();
  const auto fence = Fence();
  ASSERT_THAT(fence, IsOk());
  EXPECT_EQ(fence->copies, "");
  EXPECT_EQ(fence->error, "");
}

TEST_F(LeasesTest, ASearchThatMissesProcessesIsRepeatedAFewTimes) {
  LeaseRecord lease = Heartbeat();
  lease.on_lapse = OnLapse::kKeep;
  ASSERT_THAT(Bind(), IsOk());
  ASSERT_THAT(Acquire(lease), IsOk());
  executor().SetBlind(true);
  const auto lapse = [&] {
    Pass(10);
    LapseDue();
    EXPECT_EQ(Outcome(Fence()), "Busy");
    ASSERT_EQ(services().leases.Pending().size(), 1U);
    const FenceRecord pending = services().leases.Pending().front();
    EXPECT_NE(pending.error.find("cannot tell"), std::string::npos);
    EXPECT_EQ(pending.copies, "");
    EXPECT_EQ(pending.searched.boot_us, 0U);
  };
  lapse();
  executor().SetBlind(false);
  const auto fence = Fence();
  ASSERT_THAT(fence, IsOk());
  EXPECT_EQ(fence->copies, "");
  // A process that no search can look at does not hold up the fence for ever.
  ASSERT_THAT(Acquire(lease), IsOk());
  executor().SetBlind(true);
  lapse();
  EXPECT_EQ(Outcome(Fence()), "Busy");
  EXPECT_EQ(Outcome(Fence()), "Busy");
  const auto unsure = Fence();
  ASSERT_THAT(unsure, IsOk());
  EXPECT_EQ(unsure->state, FenceState::kDone);
  EXPECT_FALSE(unsure->volumes_detached);
  EXPECT_NE(unsure->copies.find("cannot tell"), std::string::npos);
}

// A search does not find a copy of a mount that is gone from the host, so all
// processes of the cgroup count until there are none.
class IgnoredCopies : public LeasesTest {
 protected:
  void Mount() {
    ASSERT_THAT(Bind(), IsOk());
    exec::Holder task;
    task.pid = 7;
    executor().AddHolder(0, task, kCgroup);
  }
  void Detach() {
    ASSERT_THAT(
        services().mounts.Unmount(agent_, NameOf("web"), NameOf("task"),
                                  NameOf("m"), exec::UnmountMode::kDetach, {}),
        IsOk());
  }
  Result<ReceiptRecord> Release(OnTasks on_tasks) {
    return services().allocations.ReleaseAllocation(agent_, NameOf("web"),
                                                    on_tasks);
  }
  FenceRecord Told() {
    return services().lease_verbs.GetFence(agent_, NameOf("web")).value();
  }
  bool HasUsers() {
    return services().allocations.GetReceipt(agent_, NameOf("web"))->has_users;
  }
  void Lapse() {
    Pass(10);
    LapseDue();
    ASSERT_THAT(services().fences.StopTasks("web"), IsOk());
  }
  void Again() {
    core_.Restart();
    ASSERT_THAT(core_.Recover(), IsOk());
  }
};

TEST_F(IgnoredCopies, AReleaseThatIgnoresTasksFreesNoClaim) {
  Mount();
  ASSERT_THAT(Acquire(Heartbeat()), IsOk());
  Lapse();
  const auto receipt = Release(OnTasks::kIgnore);
  ASSERT_THAT(receipt, IsOk());
  EXPECT_TRUE(receipt->has_users);
  const auto fence = services().fences.Finish("web");
  ASSERT_THAT(fence, IsOk());
  EXPECT_EQ(fence->state, FenceState::kDone);
  EXPECT_FALSE(fence->volumes_detached);
  Again();
  EXPECT_TRUE(HasUsers());
  EXPECT_FALSE(Told().volumes_detached);
  executor().EndProcesses();
  EXPECT_FALSE(HasUsers());
  EXPECT_TRUE(Told().volumes_detached);
  // A process that comes later never had the mount.
  executor().AddHolder(0, {}, kCgroup);
  EXPECT_FALSE(HasUsers());
  EXPECT_TRUE(Told().volumes_detached);
}

// mountd was killed after the mount was attached and before it was recorded, so
// a task may have copied it. The next start removes it.
TEST_F(IgnoredCopies, AMountWhoseMakingWasCutOffFreesNoClaim) {
  Mount();
  const MountRecord mount = core_.boot->mounts.ListMounts()->front();
  ASSERT_THAT(
      core_.boot->mounts.SetMountState(mount, MountRecordState::kAttaching),
      IsOk());
  Again();
  ASSERT_EQ(core_.boot->mounts.ListMounts()->size(), 0U);
  ASSERT_THAT(Release(OnTasks::kRefuse), IsOk());
  EXPECT_TRUE(HasUsers());
  executor().EndProcesses();
  EXPECT_FALSE(HasUsers());
}

TEST_F(IgnoredCopies, ADetachBeforeTheLapseFreesNoClaim) {
  Mount();
  ASSERT_THAT(Acquire(Heartbeat()), IsOk());
  Detach();
  Again();
  Pass(10);
  LapseDue();
  const auto fence = Fence();
  ASSERT_THAT(fence, IsOk());
  EXPECT_FALSE(fence->volumes_detached);
  EXPECT_NE(fence->copies.find("(pid 7, cgroup)"), std::string::npos)
      << fence->copies;
  EXPECT_FALSE(Record());
  // A cgroup that mountd cannot look at counts as one with processes.
  executor().FailNext("FindProcesses", Code::kPermissionDenied);
  EXPECT_FALSE(Told().volumes_detached);
  executor().SetBlind(true);
  EXPECT_FALSE(Told().volumes_detached);
  executor().SetBlind(false);
  EXPECT_NE(Told().copies, "");
  executor().EndProcesses();
  EXPECT_TRUE(Told().volumes_detached);
  EXPECT_EQ(Told().copies, "");
}

TEST_F(IgnoredCopies, AReceiptOfDetachedVolumesNamesNoCopies) {
  Mount();
  Detach();
  const auto mount = Bind();
  ASSERT_THAT(mount, IsOk());
  ASSERT_THAT(Acquire(Heartbeat()), IsOk());
  exec::Holder task;
  task.pid = 8;
  executor().AddCopy(mount->record.mount_id, "", task, kCgroup);
  Lapse();
  // The tasks end after the search for copies, and before the release.
  EXPECT_EQ(WhileBlocked(
                executor().script(), "FindProcesses",
                [&] { return Outcome(services().fences.Finish("web")); },
                [&] { executor().EndProcesses(); }),
            "Ok");
  EXPECT_TRUE(Told().volumes_detached);
  EXPECT_EQ(Told().copies, "");
}

TEST_F(IgnoredCopies, AKeptAllocationFreesNoClaim) {
  LeaseRecord lease = Heartbeat();
  lease.on_lapse = OnLapse::kKeep;
  Mount();
  ASSERT_THAT(Acquire(lease), IsOk());
  Lapse();
  Detach();
  const auto fence = services().fences.Finish("web");
  ASSERT_THAT(fence, IsOk());
  EXPECT_FALSE(fence->volumes_detached);
  EXPECT_NE(fence->copies, "");
}

// A task may copy a mount between the search and the unmount.
TEST_F(IgnoredCopies, ATaskThatComesAfterTheKillFreesNoClaim) {
  LeaseRecord lease = Heartbeat();
  lease.stop_tasks = TaskStop::kKill;
  Mount();
  ASSERT_THAT(Acquire(lease), IsOk());
  Lapse();
  executor().AddHolder(0, {}, kCgroup);
  const auto fence = services().fences.Finish("web");
  ASSERT_THAT(fence, IsOk());
  EXPECT_FALSE(fence->volumes_detached);
  executor().EndProcesses();
  EXPECT_TRUE(Told().volumes_detached);
}

// No search knows a mount that was lost, or whose making was cut off.
TEST_F(IgnoredCopies, AMountWithoutAKnownIdFreesNoClaim) {
  for (const MountRecordState state :
       {MountRecordState::kLost, MountRecordState::kAttaching}) {
    Mount();
    const auto mounts = core_.boot->mounts.MountsOf("web");
    ASSERT_EQ(mounts->size(), 1U);
    ASSERT_THAT(core_.boot->mounts.SetMountState(mounts->front(), state),
                IsOk());
    ASSERT_THAT(Acquire(Heartbeat()), IsOk());
    Lapse();
    const auto fence = services().fences.Finish("web");
    ASSERT_THAT(fence, IsOk());
    EXPECT_FALSE(fence->volumes_detached);
    executor().EndProcesses();
    EXPECT_TRUE(Told().volumes_detached);
    ASSERT_THAT(Prepare("web"), IsOk());
  }
}

// A search looks at the allocation's last cgroup alone.
TEST_F(IgnoredCopies, AMoveToAnotherCgroupFreesNoClaim) {
  constexpr std::uint64_t kNext = 78;
  executor().PutCgroup(kNext, "/agent/next");
  const auto move = [&](std::uint64_t cgroup) {
    return Outcome(services().allocations.PrepareAllocation(
        agent_, NameOf("web"), "prod", cgroup, /*group=*/0));
  };
  Mount();
  ASSERT_EQ(move(kNext), "Ok");
  ASSERT_THAT(Acquire(Heartbeat()), IsOk());
  Lapse();
  const auto fence = services().fences.Finish("web");
  ASSERT_THAT(fence, IsOk());
  EXPECT_FALSE(fence->volumes_detached);
  EXPECT_NE(fence->copies.find("(pid 7, cgroup)"), std::string::npos)
      << fence->copies;
  executor().EndProcesses();
  EXPECT_TRUE(Told().volumes_detached);
}

TEST_F(IgnoredCopies, AnAllocationLeavesFewCgroupsWithProcesses) {
  constexpr std::uint64_t kMost = 16;
  const auto move = [&](std::uint64_t cgroup) {
    executor().PutCgroup(cgroup, "/agent/" + std::to_string(cgroup));
    exec::Holder task;
    task.pid = static_cast<std::uint32_t>(cgroup);
    executor().AddHolder(0, task, cgroup);
    return Outcome(services().allocations.PrepareAllocation(
        agent_, NameOf("web"), "prod", cgroup, /*group=*/0));
  };
  executor().AddHolder(0, {}, kCgroup);
  for (std::uint64_t i = 0; i < kMost; ++i) {
    ASSERT_EQ(move(100 + i), "Ok");
  }
  EXPECT_EQ(move(200), "ResourceExhausted");
  EXPECT_EQ(Record()->cgroup, 100 + kMost - 1);
  executor().EndProcesses();
  EXPECT_EQ(move(200), "Ok");
}

TEST_F(IgnoredCopies, AMountThatWasReplacedFreesNoClaim) {
  ASSERT_THAT(services().inboxes.PrepareInbox(agent_, {"web", "task"},
                                              /*opens=*/false),
              IsOk());
  BindMountRequest spec = Wish();
  spec.wish.target_kind = exec::TargetKind::kInbox;
  ASSERT_THAT(services().mounts.BindMount(agent_, spec), IsOk());
  executor().AddHolder(0, {}, kCgroup);
  ASSERT_THAT(services().mounts.ReplaceMount(agent_, spec), IsOk());
  EXPECT_TRUE(Release(OnTasks::kRefuse)->has_users);
  executor().EndProcesses();
  EXPECT_FALSE(HasUsers());
}

// The tasks of a stopped cgroup have ended, and a reboot ended all.
TEST_F(IgnoredCopies, StoppedTasksAndARebootLeaveNone) {
  Mount();
  Detach();
  LeaseRecord lease = Heartbeat();
  lease.stop_tasks = TaskStop::kKill;
  ASSERT_THAT(Acquire(lease), IsOk());
  Lapse();
  EXPECT_TRUE(services().fences.Finish("web")->volumes_detached);
  ASSERT_THAT(Prepare("web"), IsOk());
  Mount();
  ASSERT_TRUE(Release(OnTasks::kIgnore)->has_users);
  core_.Restart(/*same_boot=*/false);
  ASSERT_THAT(core_.Recover(), IsOk());
  EXPECT_FALSE(HasUsers());
}

// A tmpfs frees no claim, and a copy outside a cgroup is not looked for.
TEST_F(IgnoredCopies, OtherMountsCostNoSearch) {
  BindMountRequest tmpfs = Wish();
  tmpfs.wish.source_kind = exec::SourceKind::kTmpfs;
  tmpfs.wish.source.clear();
  tmpfs.wish.tmpfs.bytes = 4096;
  ASSERT_THAT(services().mounts.BindMount(agent_, tmpfs), IsOk());
  executor().AddHolder(0, {}, kCgroup);
  EXPECT_FALSE(Release(OnTasks::kIgnore)->has_users);
  EXPECT_EQ(executor().script().Count("FindProcesses"), 0U);
}

TEST_F(LeasesTest, TheIntentOutlivesAKillAtEachStep) {
  ASSERT_THAT(Bind(), IsOk());
  LeaseRecord lease = Heartbeat();
  lease.stop_tasks = TaskStop::kFreeze;
  ASSERT_THAT(Acquire(lease), IsOk());
  const auto restart = [&] {
    core_.Restart();
    EXPECT_THAT(core_.Recover(), IsOk());
  };
  Pass(10);
  restart();  // before the lapse was noticed
  LapseDue();
  restart();
  ASSERT_EQ(services().leases.Pending().size(), 1U);
  EXPECT_EQ(Outcome(Bind("other")), "FailedPrecondition");
  ASSERT_THAT(services().fences.StopTasks("web"), IsOk());
  restart();
  // A kill came after the release, and before the receipt of the fence.
  ASSERT_THAT(services().teardowns.Release(*Record()), IsOk());
  restart();
  EXPECT_EQ(Outcome(Prepare("web")), "FailedPrecondition");
  const auto fence = Fence();
  ASSERT_THAT(fence, IsOk());
  EXPECT_TRUE(fence->volumes_detached);
  restart();
  EXPECT_TRUE(services().leases.Pending().empty());
  EXPECT_THAT(Prepare("web"), IsOk());
}

TEST_F(LeasesTest, ALeaseOfAnotherBootHasLapsedAndItsTasksAreGone) {
  LeaseRecord lease = Heartbeat();
  lease.stop_tasks = TaskStop::kKill;
  ASSERT_THAT(Acquire(lease), IsOk());
  core_.Restart(/*same_boot=*/false);
  core_.boot_us = kSecond;
  ASSERT_THAT(core_.Recover(), IsOk());
  EXPECT_EQ(Outcome(Bind()), "FailedPrecondition");
  LapseDue();
  const auto fence = Fence();
  ASSERT_THAT(fence, IsOk());
  EXPECT_NE(fence->lapse_reason.find("machine"), std::string::npos);
  EXPECT_EQ(executor().script().Count("StopTasks"), 0U);
}

TEST_F(LeasesTest, AHeartbeatKeepsItsDeadlineOverAStart) {
  ASSERT_THAT(Acquire(Heartbeat()), IsOk());
  Pass(9);
  ASSERT_THAT(Renew(), IsOk());
  Pass(5);
  core_.Restart();
  ASSERT_THAT(core_.Recover(), IsOk());
  EXPECT_THAT(Bind(), IsOk());
  Pass(5);
  EXPECT_EQ(Outcome(Bind("late")), "FailedPrecondition");
}

TEST_F(LeasesTest, TheHolderOfAPipeHasAGraceAfterAStart) {
  LeaseRecord lease = Heartbeat();
  lease.kind = LeaseKind::kPipe;
  ASSERT_THAT(Acquire(lease), IsOk());
  Pass(1'000'000);
  EXPECT_THAT(Bind(), IsOk());
  for (const bool comes : {true, false}) {
    core_.Restart();
    ASSERT_THAT(core_.Recover(), IsOk());
    Pass(29);
    EXPECT_TRUE(services().leases.DueNow().empty());
    if (comes) {
      ASSERT_THAT(Acquire(lease), IsOk());
    }
    Pass(1);
    EXPECT_EQ(services().leases.DueNow().empty(), comes);
  }
}

TEST_F(LeasesTest, ACallThatEndsAfterTheLapseIsUndone) {
  LeaseRecord lease = Heartbeat();
  lease.on_lapse = OnLapse::kKeep;
  ASSERT_THAT(Bind("old"), IsOk());
  ASSERT_THAT(Acquire(lease), IsOk());
  const auto existing = executor().Existing();
  EXPECT_EQ(WhileBlocked("Attach", [&] { return Outcome(Bind("new")); }),
            "FailedPrecondition");
  // The mount of before the lapse is kept.
  EXPECT_EQ(executor().Existing(), existing);
  EXPECT_EQ(core_.boot->mounts.MountsOf("web")->size(), 1U);
}

// Mounting the old source again would attach something after the lapse.
TEST_F(LeasesTest, ASwapThatEndsAfterTheLapseLeavesALostMount) {
  LeaseRecord lease = Heartbeat();
  lease.on_lapse = OnLapse::kKeep;
  ASSERT_THAT(Bind(), IsOk());
  const std::function<Result<void>()> swaps[] = {
      [&]() -> Result<void> {
        BindMountRequest spec = Wish();
        spec.wish.attributes = exec::kReadOnly;
        MOUNTD_TRY(services().mounts.ReplaceMount(agent_, spec));
        return Ok();
      },
      [&]() -> Result<void> {
        MOUNTD_TRY(services().mounts.RepairMount(agent_, NameOf("web"),
                                                 NameOf("task"), NameOf("m")));
        return Ok();
      }};
  for (const auto& swap : swaps) {
    ASSERT_THAT(Acquire(lease), IsOk());
    std::string detail;
    EXPECT_EQ(WhileBlocked("Attach",
                           [&] {
                             const Result<void> outcome = swap();
                             detail = outcome ? "" : outcome.error().detail;
                             return Outcome(outcome);
                           }),
              "FailedPrecondition");
    EXPECT_NE(detail.find("neither its old nor its new"), std::string::npos)
        << detail;
    EXPECT_EQ(executor().MountIdOf("web/task/m"), 0U);
    const auto mounts = core_.boot->mounts.MountsOf("web");
    ASSERT_EQ(mounts->size(), 1U);
    EXPECT_EQ(mounts->front().state, MountRecordState::kLost);
    LapseDue();
    ASSERT_THAT(Fence(), IsOk());
    ASSERT_THAT(Acquire(lease), IsOk());
    EXPECT_THAT(services().mounts.RepairMount(agent_, NameOf("web"),
                                              NameOf("task"), NameOf("m")),
                IsOk());
    EXPECT_NE(executor().MountIdOf("web/task/m"), 0U);
  }
}

// The call changes nothing, so there is nothing to undo.
TEST_F(LeasesTest, ARepeatedSwapLeavesTheMountAsItIs) {
  LeaseRecord lease = Heartbeat();
  lease.on_lapse = OnLapse::kKeep;
  const auto mount = Bind();
  ASSERT_THAT(mount, IsOk());
  ASSERT_THAT(Acquire(lease), IsOk());
  EXPECT_EQ(WhileBlocked("FindCopies",
                         [&] {
                           return Outcome(
                               services().mounts.ReplaceMount(agent_, Wish()));
                         }),
            "FailedPrecondition");
  EXPECT_EQ(executor().MountIdOf("web/task/m"), mount->record.mount_id);
}

TEST_F(LeasesTest, ARepairOfAVolumesMountsEndsWithTheLapse) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  LeaseRecord lease = Heartbeat();
  lease.on_lapse = OnLapse::kKeep;
  ASSERT_THAT(Acquire(lease), IsOk());
  ASSERT_EQ(Publish(Volume()), "Ok");
  BindMountRequest spec = Wish();
  spec.wish.source_kind = exec::SourceKind::kPublishedVolume;
  ASSERT_THAT(services().mounts.BindMount(agent_, spec), IsOk());
  const PublicationRecord publication = core_.volumes->Of("web")->at(0);
  EXPECT_EQ(WhileBlocked("Attach",
                         [&] {
                           return Outcome(
                               services().volumes.RepairMountsOf(publication));
                         }),
            "FailedPrecondition");
  EXPECT_EQ(executor().MountIdOf("web/task/m"), 0U);
  EXPECT_EQ(core_.boot->mounts.MountsOf("web")->front().state,
            MountRecordState::kLost);
}

// No caller waits for this repair, so nobody else would unmount what it made.
TEST_F(LeasesTest, AMountThatCannotBeLostAfterTheLapseIsUnmountedOrPending) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  LeaseRecord lease = Heartbeat();
  lease.on_lapse = OnLapse::kKeep;
  BindMountRequest spec = Wish();
  spec.wish.source_kind = exec::SourceKind::kPublishedVolume;
  for (const std::size_t failures : {1U, 2U}) {
    ASSERT_THAT(Acquire(lease), IsOk());
    ASSERT_EQ(Publish(Volume()), "Ok");
    ASSERT_THAT(services().mounts.BindMount(agent_, spec), IsOk());
    const PublicationRecord publication = core_.volumes->Of("web")->at(0);
    executor().FailNext("Detach", Code::kUnavailable, FailWhen::kBefore,
                        failures);
    std::string detail;
    EXPECT_EQ(WhileBlocked("Attach",
                           [&] {
                             const Result<void> outcome =
                                 services().volumes.RepairMountsOf(publication);
                             detail = outcome ? "" : outcome.error().detail;
                             return Outcome(outcome);
                           }),
              "FailedPrecondition");
    EXPECT_NE(detail.find("BindMount mounts it again"), std::string::npos)
        << detail;
    const std::vector<OwedRecord> owed =
        services().node.ListOwed(agent_).value();
    ASSERT_EQ(owed.size(), failures - 1);
    for (const OwedRecord& one : owed) {
      EXPECT_EQ(one.object, "web/task/m");
      EXPECT_THAT(services().teardowns.Retry(one), IsOk());
    }
    EXPECT_EQ(executor().MountIdOf("web/task/m"), 0U);
    EXPECT_TRUE(core_.boot->mounts.MountsOf("web")->empty());
    LapseDue();
    ASSERT_THAT(Fence(), IsOk());
  }
}

TEST_F(LeasesTest, ANetworkThatEndsAfterTheLapseIsUndone) {
  ASSERT_THAT(Acquire(Heartbeat()), IsOk());
  EXPECT_EQ(WhileBlocked("CreateNetwork", [&] { return Outcome(Network()); }),
            "FailedPrecondition");
  EXPECT_TRUE(core_.boot->networks.NetworksOf("web")->empty());
}

TEST_F(LeasesTest, PortsThatAreReplacedAfterTheLapseAreAsBefore) {
  LeaseRecord lease = Heartbeat();
  lease.on_lapse = OnLapse::kKeep;
  const auto network = Network();
  ASSERT_THAT(network, IsOk());
  ASSERT_THAT(Acquire(lease), IsOk());
  PortMapping port;
  port.label = "http";
  port.host_port = 20000;
  port.container_port = 80;
  port.protocols = exec::kTcp;
  EXPECT_EQ(
      WhileBlocked("UpdatePorts",
                   [&] {
                     return Outcome(services().networks.UpdatePorts(
                         agent_, NameOf("web"), network->interface, {port}));
                   }),
      "FailedPrecondition");
  EXPECT_TRUE(core_.networks->Get("web", network->interface)->ports.empty());
}

TEST_F(LeasesTest, ANamespaceIsNotHandedOutAfterTheLapse) {
  const auto network = Network();
  ASSERT_THAT(network, IsOk());
  ASSERT_THAT(Acquire(Heartbeat()), IsOk());
  EXPECT_EQ(WhileBlocked("OpenNamespace",
                         [&] {
                           return Outcome(services().networks.GetNetwork(
                               agent_, NameOf("web"), network->interface,
                               /*open=*/true));
                         }),
            "FailedPrecondition");
}

TEST_F(LeasesTest, AnExpansionThatEndsAfterTheLapseFails) {
  csi::FakeCsiClient::Plugin plugin = csi::FakeCsiClient::DefaultPlugin("nfs");
  plugin.capabilities.node_rpcs.push_back(
      static_cast<int>(csi::NodeRpc::kExpandVolume));
  client().SetPlugin("nfs", plugin);
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  ASSERT_THAT(Acquire(Heartbeat()), IsOk());
  ASSERT_EQ(Publish(Volume()), "Ok");
  EXPECT_EQ(WhileBlocked(
                client().script(), "NodeExpandVolume",
                [&] {
                  return Outcome(services().volumes.ExpandVolume(
                      agent_, {"web", "data", 1 << 20, 0}, UniqueFd()));
                },
                [&] { Pass(10); }),
            "FailedPrecondition");
}

TEST_F(LeasesTest, APluginThatIsRegisteredAfterTheLapseIsUndone) {
  LeaseRecord lease = Heartbeat();
  lease.on_lapse = OnLapse::kKeep;
  ASSERT_THAT(Acquire(lease), IsOk());
  EXPECT_EQ(WhileBlocked("PreparePlugin",
                         [&] {
                           PluginRecord plugin;
                           plugin.id = "own";
                           plugin.type = "node";
                           plugin.allocation = "web";
                           return Outcome(services().plugins.RegisterPlugin(
                               agent_, plugin));
                         }),
            "FailedPrecondition");
  EXPECT_FALSE(core_.plugins->Get("own"));
}

// The plugin's answer says nothing, so mountd would ask it again later.
TEST_F(LeasesTest, APublishThatIsCutOffByTheLapseIsNotSettled) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  LeaseRecord lease = Heartbeat();
  lease.on_lapse = OnLapse::kKeep;
  ASSERT_THAT(Acquire(lease), IsOk());
  client().FailNext("NodeStageVolume", csi::RpcCode::kDeadlineExceeded,
                    FailWhen::kAfter, CallScript<csi::RpcError>::kAlways);
  EXPECT_EQ(WhileBlocked(
                client().script(), "NodeStageVolume",
                [&] { return Publish(Volume()); }, [&] { Pass(10); }),
            "FailedPrecondition");
  EXPECT_TRUE(core_.volumes->ListUnsettled().empty());
  EXPECT_TRUE(core_.volumes->Of("web")->empty());
  EXPECT_TRUE(client().Staged().empty());
}

// mountd would publish the volume again without a call.
TEST_F(LeasesTest, ADeadVolumeOfAFencedAllocationIsNotRestored) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  LeaseRecord lease = Heartbeat();
  lease.on_lapse = OnLapse::kKeep;
  ASSERT_THAT(Acquire(lease), IsOk());
  ASSERT_EQ(Publish(Volume()), "Ok");
  Pass(10);
  LapseDue();
  ASSERT_THAT(Fence(), IsOk());
  Die();
  client().script().Forget();
  const auto restored = core_.volumes->RestoreDead("nfs");
  ASSERT_THAT(restored, IsOk());
  EXPECT_TRUE(restored->restored.empty());
  EXPECT_EQ(Ups(), 0U);
  // The way down goes on, so that the claim can be freed.
  EXPECT_TRUE(client().Staged().empty());
  ASSERT_THAT(Acquire(lease), IsOk());
  EXPECT_EQ(core_.volumes->RestoreDead("nfs")->restored.size(), 1U);
}

TEST_F(LeasesTest, OnlyUsersWithAHeldLeaseGetADeadVolumeBack) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  ASSERT_THAT(Prepare("db"), IsOk());
  LeaseRecord lease = Heartbeat();
  lease.on_lapse = OnLapse::kKeep;
  ASSERT_THAT(Acquire(lease), IsOk());
  for (const char* allocation : {"web", "db"}) {
    csi::PublishSpec spec = Volume(allocation);
    spec.capability.access_mode = csi::AccessMode::kMultiNodeMultiWriter;
    ASSERT_EQ(Publish(spec), "Ok");
  }
  Pass(10);
  for (int i = 0; i < 2; ++i) {
    Die("web");
    Die("db");
    client().script().Forget();
    const auto restored = core_.volumes->RestoreDead("nfs");
    ASSERT_THAT(restored, IsOk());
    ASSERT_EQ(restored->restored.size(), 1U);
    EXPECT_EQ(restored->restored.at(0).allocation, "db");
    // The staging is another one each time, because it had died, too.
    EXPECT_EQ(client().script().Count("NodeUnstageVolume"), 1U);
  }
}

TEST_F(LeasesTest, AVolumeThatIsRestoredAfterTheLapseIsTakenBack) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  LeaseRecord lease = Heartbeat();
  lease.on_lapse = OnLapse::kKeep;
  ASSERT_THAT(Acquire(lease), IsOk());
  ASSERT_EQ(Publish(Volume()), "Ok");
  Die();
  EXPECT_EQ(WhileBlocked(
                client().script(), "NodeStageVolume",
                [&] { return Outcome(core_.volumes->RestoreDead("nfs")); },
                [&] { Pass(10); }),
            "Ok");
  EXPECT_TRUE(client().Staged().empty());
  EXPECT_EQ(core_.volumes->Of("web")->at(0).state,
            PublicationState::kUncertain);
}

TEST_F(LeasesTest, AnUnknownOutcomeIsNotSettledDuringAFence) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  LeaseRecord lease = Heartbeat();
  lease.on_lapse = OnLapse::kKeep;
  ASSERT_THAT(Acquire(lease), IsOk());
  client().FailNext("NodeStageVolume", csi::RpcCode::kDeadlineExceeded,
                    FailWhen::kBefore, CallScript<csi::RpcError>::kAlways);
  ASSERT_EQ(Publish(Volume()), "DeadlineExceeded");
  client().script().Clear();
  // The lapse comes while mountd asks again.
  const auto settle = [&] {
    return Outcome(core_.volumes->Settle({"web", "data"}));
  };
  EXPECT_EQ(WhileBlocked(client().script(), "NodeStageVolume", settle,
                         [&] { Pass(10); }),
            "FailedPrecondition");
  EXPECT_TRUE(client().Staged().empty());
  LapseDue();
  ASSERT_THAT(Fence(), IsOk());
  ASSERT_THAT(Acquire(lease), IsOk());
  client().FailNext("NodeStageVolume", csi::RpcCode::kDeadlineExceeded,
                    FailWhen::kBefore, CallScript<csi::RpcError>::kAlways);
  ASSERT_EQ(Publish(Volume()), "DeadlineExceeded");
  client().script().Clear();
  client().script().Forget();
  Pass(10);
  EXPECT_EQ(settle(), "FailedPrecondition");
  EXPECT_EQ(Ups(), 0U);
  LapseDue();
  ASSERT_THAT(Fence(), IsOk());
  ASSERT_THAT(Acquire(lease), IsOk());
  EXPECT_EQ(settle(), "Ok");
  EXPECT_EQ(client().Staged().size(), 1U);
}

TEST_F(LeasesTest, APublishThatIsRepeatedIntoTheLapseIsTakenBack) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  LeaseRecord lease = Heartbeat();
  lease.on_lapse = OnLapse::kKeep;
  ASSERT_THAT(Acquire(lease), IsOk());
  client().FailNext("NodeStageVolume", csi::RpcCode::kDeadlineExceeded,
                    FailWhen::kBefore, CallScript<csi::RpcError>::kAlways);
  ASSERT_EQ(Publish(Volume()), "DeadlineExceeded");
  client().script().Clear();
  EXPECT_EQ(WhileBlocked(
                client().script(), "NodePublishVolume",
                [&] { return Publish(Volume()); }, [&] { Pass(10); }),
            "FailedPrecondition");
  EXPECT_TRUE(client().Staged().empty());
  EXPECT_TRUE(core_.volumes->ListUnsettled().empty());
}

TEST_F(LeasesTest, AVolumeIsStagedOnlyUnderAHeldLease) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  ASSERT_THAT(Prepare("db", "", /*required=*/true), IsOk());
  const auto publish = [&] { return Publish(Volume("db")); };
  EXPECT_EQ(publish(), "FailedPrecondition");
  EXPECT_TRUE(core_.state->volumes.ListVolumes()->empty());
  ASSERT_THAT(Acquire(Heartbeat("lease", "db")), IsOk());
  EXPECT_EQ(publish(), "Ok");
  Pass(10);
  EXPECT_EQ(publish(), "FailedPrecondition");
}

TEST_F(LeasesTest, OfAScopeBindsEachOfItsAllocations) {
  LeaseRecord lease = Heartbeat("scope", "");
  lease.scope = "prod";
  ASSERT_THAT(Acquire(lease), IsOk());
  ASSERT_THAT(Prepare("db"), IsOk());
  ASSERT_THAT(Prepare("other", "test"), IsOk());
  Pass(10);
  EXPECT_EQ(Outcome(Prepare("late")), "FailedPrecondition");
  LapseDue();
  EXPECT_EQ(services().leases.Pending().size(), 2U);
  for (const char* allocation : {"web", "db"}) {
    EXPECT_THAT(Fence(allocation), IsOk());
    EXPECT_FALSE(Record(allocation));
  }
  EXPECT_TRUE(Record("other"));
  EXPECT_EQ(Outcome(Prepare("late")), "FailedPrecondition");
  ASSERT_THAT(Acquire(lease), IsOk());
  EXPECT_THAT(Prepare("late"), IsOk());
}

TEST_F(LeasesTest, OnlyTheOwnerAcquiresAndEachUserHasItsOwnNames) {
  EXPECT_EQ(Outcome(Acquire(Heartbeat(), Core::kOther)), "PermissionDenied");
  EXPECT_EQ(Outcome(Acquire(Heartbeat(), Core::kAdmin)), "PermissionDenied");
  EXPECT_EQ(Outcome(Acquire(Heartbeat(), Core::kNobody)), "PermissionDenied");
  // Another user's lease of this name and scope is in nobody's way.
  LeaseRecord others = Heartbeat("lease", "");
  others.scope = "prod";
  ASSERT_THAT(Acquire(others, Core::kOther), IsOk());
  ASSERT_THAT(Acquire(Heartbeat()), IsOk());
  Pass(10);
  EXPECT_EQ(services().leases.DueNow().size(), 2U);
  LapseDue();
  ASSERT_EQ(services().leases.Pending().size(), 1U);
  EXPECT_EQ(services().leases.Pending().front().lease.uid, Core::kAgent);
  const auto list = [&](std::uint32_t uid) {
    return services().lease_verbs.ListLeases(Core::By(uid))->size();
  };
  EXPECT_EQ(list(Core::kAgent), 1U);
  EXPECT_EQ(list(Core::kAdmin), 2U);
  EXPECT_EQ(Outcome(services().lease_verbs.ReleaseLease(
                agent_, {Core::kOther, "lease"})),
            "PermissionDenied");
}

TEST_F(LeasesTest, HasOneNameASubjectAndABound) {
  ASSERT_THAT(Prepare("db"), IsOk());
  ASSERT_THAT(Acquire(Heartbeat("a")), IsOk());
  EXPECT_EQ(Outcome(Acquire(Heartbeat("b"))), "AlreadyExists");
  EXPECT_EQ(Outcome(Acquire(Heartbeat("a", "db"))), "AlreadyExists");
  EXPECT_EQ(Outcome(Acquire(Heartbeat("c", "gone"))), "NotFound");
  for (const char* scope : {"x", "y"}) {
    LeaseRecord lease = Heartbeat(scope, "");
    lease.scope = scope;
    ASSERT_THAT(Acquire(lease), IsOk());
  }
  EXPECT_EQ(Outcome(Acquire(Heartbeat("b", "db"))), "ResourceExhausted");
  EXPECT_THAT(Acquire(Heartbeat("a")), IsOk());
  EXPECT_EQ(Outcome(Renew("none")), "NotFound");
  // A release of the allocation ends its lease.
  ASSERT_THAT(services().allocations.ReleaseAllocation(agent_, NameOf("web")),
              IsOk());
  EXPECT_EQ(Outcome(Renew("a")), "NotFound");
  EXPECT_THAT(Acquire(Heartbeat("b", "db")), IsOk());
}

TEST_F(LeasesTest, TasksAreStoppedOnlyWhereARuleGrantsIt) {
  executor().PutCgroup(78, "/other");
  LeaseRecord lease = Heartbeat();
  lease.stop_tasks = TaskStop::kKill;
  Config less = core_.config;
  less.rules[0].stop_tasks = TaskStop::kFreeze;
  core_.live_config.ReplaceLive(less);
  EXPECT_EQ(Outcome(Acquire(lease)), "PermissionDenied");
  lease.stop_tasks = TaskStop::kFreeze;
  EXPECT_THAT(Acquire(lease), IsOk());
  // A scope's lease also binds what is prepared later.
  LeaseRecord scope = Heartbeat("scope", "");
  scope.scope = "later";
  scope.stop_tasks = TaskStop::kFreeze;
  ASSERT_THAT(Acquire(scope), IsOk());
  EXPECT_EQ(Outcome(services().allocations.PrepareAllocation(
                agent_, NameOf("a"), "later")),
            "FailedPrecondition");
  EXPECT_THAT(Prepare("a", "later"), IsOk());
}

// The cgroup changes between the check of the right and the lease.
TEST_F(LeasesTest, TasksOfACgroupThatComesLaterAreNotStoppedWithoutAGrant) {
  constexpr std::uint64_t kUngranted = 79;
  executor().PutCgroup(kUngranted, "/other/web");
  LeaseRecord lease = Heartbeat();
  lease.stop_tasks = TaskStop::kKill;
  EXPECT_EQ(WhileBlocked(
                executor().script(), "InspectCgroup",
                [&] { return Outcome(Acquire(lease)); },
                [&] {
                  EXPECT_THAT(core_.state->allocations.SetAllocationCgroup(
                                  "web", kUngranted),
                              IsOk());
                }),
            "PermissionDenied");
  EXPECT_TRUE(services().leases.List().empty());
}

// Without a lease nobody would fence the allocation.
TEST_F(LeasesTest, ACallThatFailsDoesNotEndALease) {
  constexpr std::uint64_t kUngranted = 79;
  executor().PutCgroup(kUngranted, "/other/web");
  LeaseRecord lease = Heartbeat();
  ASSERT_THAT(Acquire(lease), IsOk());
  lease.stop_tasks = TaskStop::kKill;
  EXPECT_EQ(WhileBlocked(
                executor().script(), "InspectCgroup",
                [&] { return Outcome(Acquire(lease)); },
                [&] {
                  EXPECT_THAT(core_.state->allocations.SetAllocationCgroup(
                                  "web", kUngranted),
                              IsOk());
                }),
            "PermissionDenied");
  const auto leases = services().leases.List();
  ASSERT_EQ(leases.size(), 1U);
  EXPECT_EQ(leases.front().state, LeaseState::kHeld);
  EXPECT_EQ(leases.front().stop_tasks, TaskStop::kNo);
  Pass(10);
  EXPECT_EQ(Outcome(Bind()), "FailedPrecondition");
}

TEST_F(LeasesTest, AnAllocationThatIsReleasedMeanwhileGetsNoLease) {
  LeaseRecord lease = Heartbeat();
  lease.stop_tasks = TaskStop::kKill;
  EXPECT_EQ(WhileBlocked(
                executor().script(), "InspectCgroup",
                [&] { return Outcome(Acquire(lease)); },
                [&] {
                  EXPECT_THAT(services().teardowns.Release(*Record()), IsOk());
                }),
            "NotFound");
  EXPECT_TRUE(services().leases.List().empty());
}

TEST_F(LeasesTest, TheCgroupStaysWhileAFenceIsUnderWay) {
  constexpr std::uint64_t kNext = 78;
  executor().PutCgroup(kNext, "/agent/next");
  LeaseRecord lease = Heartbeat();
  lease.on_lapse = OnLapse::kKeep;
  ASSERT_THAT(Acquire(lease), IsOk());
  Pass(10);
  LapseDue();
  const auto move = [&](std::uint64_t cgroup, std::uint32_t group = 0) {
    return Outcome(services().allocations.PrepareAllocation(
        agent_, NameOf("web"), "prod", cgroup, group));
  };
  EXPECT_EQ(move(kCgroup), "Ok");
  EXPECT_EQ(move(kNext), "FailedPrecondition");
  EXPECT_EQ(move(kCgroup, 100000), "FailedPrecondition");
  EXPECT_EQ(Record()->cgroup, kCgroup);
  ASSERT_THAT(Fence(), IsOk());
  EXPECT_EQ(move(kNext), "Ok");
}

TEST_F(LeasesTest, TwoLeasesOfOneAllocationFenceItOnce) {
  LeaseRecord keep = Heartbeat();
  keep.on_lapse = OnLapse::kKeep;
  ASSERT_THAT(Acquire(keep), IsOk());
  LeaseRecord scope = Heartbeat("scope", "");
  scope.scope = "prod";
  scope.stop_tasks = TaskStop::kKill;
  ASSERT_THAT(Acquire(scope), IsOk());
  Pass(10);
  LapseDue();
  const auto pending = services().leases.Pending();
  ASSERT_EQ(pending.size(), 1U);
  // The fence does what either asks.
  EXPECT_EQ(pending.front().stop_tasks, TaskStop::kKill);
  EXPECT_EQ(pending.front().on_lapse, OnLapse::kRelease);
  EXPECT_THAT(Fence(), IsOk());
  EXPECT_FALSE(Record());
}

// The record of the fence names the first lease alone.
TEST_F(LeasesTest, NeitherLeaseOfAFenceIsReleasedDuringIt) {
  LeaseRecord keep = Heartbeat();
  keep.on_lapse = OnLapse::kKeep;
  ASSERT_THAT(Acquire(keep), IsOk());
  LeaseRecord scope = Heartbeat("scope", "");
  scope.scope = "prod";
  scope.on_lapse = OnLapse::kKeep;
  ASSERT_THAT(Acquire(scope), IsOk());
  Pass(10);
  LapseDue();
  const auto release = [&](const char* name) {
    return Outcome(
        services().lease_verbs.ReleaseLease(agent_, {Core::kAgent, name}));
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(release("lease"), "FailedPrecondition");
    EXPECT_EQ(release("scope"), "FailedPrecondition");
    core_.Restart();
    ASSERT_THAT(core_.Recover(), IsOk());
  }
  ASSERT_THAT(Fence(), IsOk());
  EXPECT_EQ(release("lease"), "Ok");
  EXPECT_EQ(release("scope"), "Ok");
}

// The allocation gets its cgroup while the first fence begins.
TEST_F(LeasesTest, ASecondLeaseStopsTheTasksOfItsOwnCgroup) {
  ASSERT_THAT(
      services().allocations.PrepareAllocation(agent_, NameOf("db"), "later"),
      IsOk());
  LeaseRecord first = Heartbeat("first", "db");
  first.on_lapse = OnLapse::kKeep;
  ASSERT_THAT(Acquire(first), IsOk());
  LeaseRecord second = Heartbeat("second", "");
  second.key.uid = Core::kAgent;
  second.scope = "later";
  second.timeout_ms = 20'000;
  second.on_lapse = OnLapse::kKeep;
  second.stop_tasks = TaskStop::kKill;
  Leases::Wanted wanted;
  wanted.lease = second;
  wanted.most = 3;
  ASSERT_THAT(services().leases.Acquire(std::move(wanted)), IsOk());
  Pass(10);
  LapseDue();
  ASSERT_THAT(services().fences.StopTasks("db"), IsOk());
  ASSERT_THAT(core_.state->allocations.SetAllocationCgroup("db", kCgroup),
              IsOk());
  Pass(10);
  LapseDue();
  const auto pending = services().leases.Pending();
  ASSERT_EQ(pending.size(), 1U);
  EXPECT_EQ(pending.front().cgroup, kCgroup);
  EXPECT_EQ(executor().script().Count("StopTasks"), 0U);
  ASSERT_THAT(services().fences.StopTasks("db"), IsOk());
  EXPECT_EQ(executor().script().Count("StopTasks"), 1U);
}

}  // namespace
}  // namespace mountd
