// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A start with stores that were lost, partly lost, or cannot be written.
#include <gtest/gtest.h>

#include "mountd/plan/wire.h"
#include "mountd/service/services.h"
#include "tests/support/fakes/failing_store.h"
#include "tests/support/matchers.h"
#include "tests/support/outcome.h"
#include "tests/unit/mountd/service/core_fixture.h"

namespace mountd {
namespace {

class LostStoreTest : public CoreFixture {
 protected:
  void Prepare(const std::string& allocation, const CallContext& call) {
    ASSERT_THAT(
        services().allocations.PrepareAllocation(call, NameOf(allocation), ""),
        IsOk());
  }
  static BindMountRequest Mount(const std::string& allocation,
                                const std::string& name = "m") {
    BindMountRequest spec;
    spec.allocation = allocation;
    spec.task = "task";
    spec.name = name;
    spec.wish.source = "data";
    return spec;
  }
  void Bind(const std::string& allocation, const std::string& name = "m") {
    ASSERT_THAT(services().mounts.BindMount(agent_, Mount(allocation, name)),
                IsOk());
  }
  void LoseAllocations() {
    ASSERT_THAT(core_.state->database().Run("DELETE FROM allocations"), IsOk());
  }
  void Start() {
    core_.Restart();
    ASSERT_THAT(core_.Recover(), IsOk());
  }
  // Returns the recorded owner; -1 if there is no record.
  std::int64_t OwnerOf(const std::string& allocation) {
    const auto record =
        core_.state->allocations.GetAllocation(allocation).value();
    return record ? static_cast<std::int64_t>(record->uid) : -1;
  }
  std::vector<OwedRecord> Owed() {
    return services().node.ListOwed(CallContext{}).value();
  }
};

// The allocation's directory tells its owner.
TEST_F(LostStoreTest, AnAllocationIsWhoseItWas) {
  Prepare("web", agent_);
  Prepare("db", Core::By(Core::kOther));
  LoseAllocations();
  Start();
  EXPECT_EQ(OwnerOf("web"), Core::kAgent);
  EXPECT_EQ(OwnerOf("db"), Core::kOther);
  EXPECT_THAT(services().allocations.ReleaseAllocation(agent_, NameOf("web")),
              IsOk());
  EXPECT_THAT(services().allocations.ReleaseAllocation(agent_, NameOf("db")),
              IsErr(Code::kPermissionDenied));
}

// The directory tells the group, too, also after a call that was cut off, and
// if somebody removed the directory.
TEST_F(LostStoreTest, AnAllocationLetsTheGroupPassThatItsDirectoryDoes) {
  constexpr std::uint32_t kGroup = 100'000;
  const auto group = [&] {
    return core_.state->allocations.GetAllocation("web").value()->group;
  };
  ASSERT_THAT(services().allocations.PrepareAllocation(agent_, NameOf("web"),
                                                       "", 0, kGroup),
              IsOk());
  EXPECT_EQ(group(), kGroup);
  Prepare("web", agent_);
  EXPECT_EQ(group(), kGroup) << "a call without a group leaves it";
  ASSERT_THAT(services().allocations.PrepareAllocation(agent_, NameOf("web"),
                                                       "", 0, kGroup + 1),
              IsOk());
  EXPECT_EQ(group(), kGroup + 1);
  LoseAllocations();
  Start();
  EXPECT_EQ(group(), kGroup + 1);
  ASSERT_THAT(core_.state->allocations.SetAllocationGroup("web", kGroup),
              IsOk());
  Start();
  EXPECT_EQ(group(), kGroup + 1);
  exec::AllocationPlan plan;
  plan.allocation = exec::ToWire("web");
  plan.uid = Core::kAgent;
  ASSERT_THAT(executor().RemoveAllocation(plan), IsOk());
  Start();
  EXPECT_EQ(group(), 0U);
}

// The directory was made by a mountd that let a group pass, so the mounts'
// records tell the owner.
TEST_F(LostStoreTest, AnAllocationIsWhoseItsMountsAre) {
  Prepare("web", agent_);
  Bind("web");
  LoseAllocations();
  executor().ForgetWhoPasses();
  Start();
  EXPECT_EQ(OwnerOf("web"), Core::kAgent);
  EXPECT_THAT(services().mounts.Unmount(agent_, NameOf("web"), NameOf("task"),
                                        NameOf("m")),
              IsOk());
  EXPECT_THAT(services().allocations.ReleaseAllocation(agent_, NameOf("web")),
              IsOk());
  core_.mounts->ReleaseLeftAnchors();
  EXPECT_TRUE(executor().Existing().empty());
}

// Root becomes the owner, because any user might get what belongs to another.
TEST_F(LostStoreTest, WhereNoRecordTellsRootIsTheOwner) {
  Prepare("bare", agent_);
  Prepare("mixed", agent_);
  Bind("mixed", "m");
  Bind("mixed", "n");
  MountRecord others =
      *core_.boot->mounts.GetMount("mixed", "task", "n").value();
  others.uid = Core::kOther;
  ASSERT_THAT(core_.boot->mounts.PutMount(others), IsOk());
  LoseAllocations();
  executor().ForgetWhoPasses();
  Start();
  for (const char* allocation : {"bare", "mixed"}) {
    EXPECT_EQ(OwnerOf(allocation), 0) << allocation;
    EXPECT_EQ(Outcome(services().allocations.ReleaseAllocation(
                  agent_, NameOf(allocation))),
              Outcome(services().allocations.ReleaseAllocation(
                  Core::By(Core::kOther), NameOf(allocation))));
    EXPECT_NE(Outcome(services().allocations.ReleaseAllocation(
                  agent_, NameOf(allocation))),
              "Ok");
  }
}

// One allocation that cannot be recorded is no reason to serve nobody. The next
// start tries again.
TEST_F(LostStoreTest, AnAllocationThatCannotBeRecordedStaysAsItIs) {
  Prepare("web", agent_);
  Bind("web");
  LoseAllocations();
  core_.Restart();
  {
    const FailingWrites failing(core_.state->database(), "INSERT",
                                "allocations");
    EXPECT_THAT(core_.Recover(), IsOk());
  }
  EXPECT_EQ(OwnerOf("web"), -1);
  EXPECT_NE(executor().MountIdOf("web/task/m"), 0U);
  Start();
  EXPECT_EQ(OwnerOf("web"), Core::kAgent);
}

// The network is there unchanged, and no caller has asked for its end.
TEST_F(LostStoreTest, ANetworkThatWasFoundIsNotOwed) {
  Prepare("web", agent_);
  ASSERT_THAT(services().networks.SetupNetwork(agent_, NameOf("web"), {}),
              IsOk());
  ASSERT_THAT(core_.boot->database().Run("DELETE FROM networks"), IsOk());
  Start();
  EXPECT_TRUE(Owed().empty());
  ASSERT_THAT(services().networks.SetupNetwork(agent_, NameOf("web"), {}),
              IsOk());
  EXPECT_EQ(services()
                .allocations.GetAllocation(agent_, NameOf("web"))
                ->networks.size(),
            1U);
}

TEST_F(LostStoreTest, AFoundMountThatCannotBeLookedAtStaysFound) {
  Prepare("web", agent_);
  Bind("web");
  ASSERT_THAT(core_.boot->database().Run("DELETE FROM mounts"), IsOk());
  Start();
  executor().LoseMount("web/task/m");
  executor().FailNext("InspectTarget", Code::kUnavailable);
  ASSERT_THAT(core_.mounts->Recover(), IsOk());
  const auto record = core_.boot->mounts.GetMount("web", "task", "m").value();
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->state, MountRecordState::kFound);
  ASSERT_THAT(core_.mounts->Recover(), IsOk());
  EXPECT_FALSE(
      core_.boot->mounts.GetMount("web", "task", "m").value().has_value());
}

TEST_F(LostStoreTest, AStartThatCannotRecordWhatIsLostFails) {
  Prepare("web", agent_);
  Bind("web", "m");
  Bind("web", "n");
  executor().LoseMount("web/task/m");
  executor().LoseMount("web/task/n");
  core_.Restart();
  {
    const FailingWrites failing(core_.boot->database(), "UPDATE", "mounts");
    EXPECT_NE(Outcome(core_.mounts->Recover()), "Ok");
  }
  EXPECT_THAT(core_.mounts->Recover(), IsOk());
  for (const char* name : {"m", "n"}) {
    EXPECT_EQ(core_.boot->mounts.GetMount("web", "task", name).value()->state,
              MountRecordState::kLost);
  }
}

// ---- Pending tear-downs ----

TEST_F(LostStoreTest, ABindThatIsRefusedOwesNothingOfTheMountThatIsThere) {
  Prepare("web", agent_);
  Bind("web");
  BindMountRequest other = Mount("web");
  other.wish.attributes = exec::kReadOnly;
  EXPECT_THAT(services().mounts.BindMount(agent_, other),
              IsErr(Code::kAlreadyExists));
  EXPECT_TRUE(Owed().empty());
  EXPECT_NE(executor().MountIdOf("web/task/m"), 0U);
}

// The allocation has no cgroup, so mountd does not know the processes to name.
TEST_F(LostStoreTest, BusyOfSomethingElseStaysAsItIs) {
  Prepare("web", agent_);
  Bind("web");
  executor().AddHolder(executor().MountIdOf("web/task/m"), {});
  executor().FailNext("Detach", Code::kBusy);
  const auto released =
      services().allocations.ReleaseAllocation(agent_, NameOf("web"));
  EXPECT_THAT(released, IsErr(Code::kBusy));
  EXPECT_EQ(MessageOf(released).find("used by"), std::string::npos);
  EXPECT_EQ(Owed().size(), 1U);
}

TEST(AllocationsCgroupTest, TheSameIsNotRecordedAgain) {
  Config config = Core::DefaultConfig();
  config.rules.front().cgroups = {"/agent"};
  Core core(config);
  core.executor->PutCgroup(7, "/agent/web");
  core.executor->PutCgroup(8, "/agent/other");
  const auto prepare = [&](std::uint64_t cgroup) {
    return Outcome(core.services->allocations.PrepareAllocation(
        Core::By(Core::kAgent), NameOf("web"), "", cgroup));
  };
  ASSERT_EQ(prepare(7), "Ok");
  {
    const FailingWrites failing(core.state->database(), "UPDATE",
                                "allocations");
    EXPECT_EQ(prepare(7), "Ok");
    EXPECT_NE(prepare(8), "Ok");
  }
  EXPECT_EQ(core.state->allocations.GetAllocation("web").value()->cgroup, 7U);
  EXPECT_EQ(prepare(8), "Ok");
  EXPECT_EQ(core.state->allocations.GetAllocation("web").value()->cgroup, 8U);
}

// The store that was lost had the lease, and whether it was required.
TEST_F(LostStoreTest, AUserWithLeasesHasToAcquireOneAgain) {
  Prepare("web", agent_);
  Prepare("db", Core::By(Core::kOther));
  LeaseRecord lease;
  lease.key.name = "lease";
  lease.allocation = "web";
  lease.kind = LeaseKind::kPipe;
  const auto acquire = [&] {
    return services().lease_verbs.AcquireLease(agent_, lease, nullptr);
  };
  const auto held = [&](const char* allocation) {
    return Outcome(services().leases.CheckHeld(
        *core_.state->allocations.GetAllocation(allocation).value()));
  };
  ASSERT_THAT(acquire(), IsOk());
  LoseAllocations();
  Start();
  EXPECT_TRUE(services().leases.List().empty());
  EXPECT_EQ(held("web"), "FailedPrecondition");
  EXPECT_EQ(held("db"), "Ok");
  ASSERT_THAT(acquire(), IsOk());
  EXPECT_EQ(held("web"), "Ok");
  // With both stores lost, nothing tells of the lease.
  LoseAllocations();
  ASSERT_THAT(core_.boot->database().Run("DELETE FROM lease_deadlines"),
              IsOk());
  Start();
  EXPECT_EQ(held("web"), "Ok");
}

}  // namespace
}  // namespace mountd
