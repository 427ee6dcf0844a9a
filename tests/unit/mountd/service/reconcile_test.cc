// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Reconcile removes what a scope has beyond what is wanted, except what lives.
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "mountd/service/services.h"
#include "mountd/service/teardowns.h"
#include "tests/support/full_disk.h"
#include "tests/support/matchers.h"
#include "tests/support/outcome.h"
#include "tests/unit/mountd/service/core_fixture.h"

namespace mountd {
namespace {

using Texts = std::vector<std::string>;

constexpr std::uint64_t kWebCgroup = 77;

Config ReconcileConfig() {
  Config config = Core::DefaultConfig();
  config.rules[0].cgroups = {"/agent"};
  return config;
}

exec::Holder Process(std::uint32_t pid, std::uint32_t uid = Core::kAgent) {
  exec::Holder holder;
  holder.pid = pid;
  holder.uid = uid;
  holder.comm = {'s', 'h'};
  return holder;
}

class ReconcileTest : public CoreFixture {
 protected:
  ReconcileTest() : CoreFixture(ReconcileConfig()) {
    executor().PutCgroup(kWebCgroup, "/agent/web");
  }

  void Prepare(const std::string& allocation, std::uint64_t cgroup = 0,
               std::uint32_t uid = Core::kAgent,
               const std::string& scope = "s") {
    ASSERT_THAT(services().allocations.PrepareAllocation(
                    Core::By(uid), NameOf(allocation), scope, cgroup),
                IsOk());
  }
  // Mounts a volume. Returns the mount's id.
  std::uint64_t Mount(const std::string& allocation) {
    BindMountRequest spec;
    spec.allocation = allocation;
    spec.task = "task";
    spec.name = "m";
    spec.wish.source = "data";
    const auto config =
        services().mounts.BindMount(Core::By(Core::kAgent), spec);
    EXPECT_THAT(config, IsOk());
    return config ? config->record.mount_id : 0;
  }
  Result<std::vector<ReconcileEntry>> Run(std::uint64_t epoch,
                                          std::set<std::string> wanted,
                                          bool dry_run = false,
                                          std::uint32_t uid = Core::kAgent,
                                          const std::string& scope = "s") {
    return services().reconciler.Reconcile(
        Core::By(uid), {scope, epoch, std::move(wanted), dry_run}, strands_);
  }
  // Returns lines such as "web released", or the error.
  static Texts Told(const Result<std::vector<ReconcileEntry>>& entries) {
    if (!entries) {
      return {Outcome(entries)};
    }
    Texts all;
    for (const ReconcileEntry& entry : *entries) {
      all.push_back(entry.allocation + " " +
                    std::string(ReconcileOutcomeName(entry.outcome)));
    }
    return all;
  }
  Texts Left() {
    Texts all;
    const auto records = core_.state->allocations.ListAllocations();
    for (const AllocationRecord& record : *records) {
      all.push_back(record.id);
    }
    return all;
  }
  std::optional<std::uint64_t> Epoch() {
    return *core_.state->allocations.GetEpoch(Core::kAgent, "s");
  }

  WorkerPool pool_{32};
  Strands strands_{pool_};
};

TEST_F(ReconcileTest, ReleasesWhatIsNotWanted) {
  Prepare("a");
  Prepare("b");
  Prepare("c");
  Mount("a");
  EXPECT_EQ(Told(Run(1, {"b", "d"})),
            (Texts{"a released", "b present", "c released", "d missing"}));
  EXPECT_EQ(Left(), Texts{"b"});
  EXPECT_THAT(
      services().allocations.GetReceipt(Core::By(Core::kAgent), NameOf("a")),
      IsOk());
  EXPECT_EQ(executor().Existing(), Texts{"allocation b"});
  EXPECT_EQ(Told(Run(1, {"b", "d"})), (Texts{"b present", "d missing"}));
}

// The releases run on strands of their own, and the names go with them.
TEST_F(ReconcileTest, ItsReceiptsHaveItsNames) {
  Prepare("a");
  Prepare("b");
  OperationTrace trace({std::nullopt, "r1"}, OperationTrace::Clock::now());
  {
    const CurrentTrace current(&trace);
    EXPECT_EQ(Told(Run(1, {})), (Texts{"a released", "b released"}));
  }
  for (const char* name : {"a", "b"}) {
    const auto receipt =
        services().allocations.GetReceipt(Core::By(Core::kAgent), NameOf(name));
    ASSERT_THAT(receipt, IsOk());
    EXPECT_EQ(receipt->request_id, "r1");
    EXPECT_EQ(receipt->traceparent, "");
  }
}

TEST_F(ReconcileTest, LooksAtNothingButTheCallersScope) {
  Prepare("mine");
  Prepare("elsewhere", 0, Core::kAgent, "t");
  Prepare("without", 0, Core::kAgent, "");
  Prepare("others", 0, Core::kOther);
  EXPECT_EQ(Told(Run(1, {})), Texts{"mine released"});
  EXPECT_EQ(Told(Run(1, {}, false, Core::kAgent, "")),
            Texts{"without released"});
  EXPECT_EQ(Left(), (Texts{"elsewhere", "others"}));
  // Administrators do not reconcile other users' allocations either.
  EXPECT_EQ(Told(Run(1, {}, false, Core::kAdmin)), Texts{});
  EXPECT_EQ(Told(Run(1, {}, false, Core::kNobody)), Texts{"PermissionDenied"});
  EXPECT_EQ(Left(), (Texts{"elsewhere", "others"}));
}

TEST_F(ReconcileTest, SaysWhereElseTheMissingAre) {
  Prepare("elsewhere", 0, Core::kAgent, "t");
  Prepare("others", 0, Core::kOther);
  const auto entries = Run(1, {"elsewhere", "others", "none"});
  ASSERT_EQ(Told(entries),
            (Texts{"elsewhere missing", "none missing", "others missing"}));
  EXPECT_EQ(entries->at(0).reason, "belongs to scope \"t\"");
  EXPECT_EQ(entries->at(1).reason, "is not prepared");
  EXPECT_EQ(entries->at(2).reason, "belongs to another user");
}

TEST_F(ReconcileTest, AnOlderEpochChangesNothing) {
  EXPECT_EQ(Told(Run(7, {})), Texts{});
  Prepare("a");
  const auto refused = Run(6, {});
  EXPECT_THAT(refused, IsErr(Code::kFailedPrecondition));
  EXPECT_NE(MessageOf(refused).find("epoch of this scope, 7"),
            std::string::npos)
      << MessageOf(refused);
  EXPECT_THAT(Run(6, {}, true), IsErr(Code::kFailedPrecondition));
  EXPECT_EQ(Left(), Texts{"a"});
  EXPECT_EQ(Epoch(), 7U);
  // The epoch does not apply to another user or scope.
  EXPECT_EQ(Told(Run(1, {}, false, Core::kOther)), Texts{});
  EXPECT_EQ(Told(Run(1, {}, false, Core::kAgent, "t")), Texts{});
  EXPECT_EQ(Told(Run(7, {})), Texts{"a released"});
  EXPECT_EQ(Told(Run(UINT64_MAX, {})), Texts{});
  EXPECT_THAT(Run(UINT64_MAX - 1, {}), IsErr(Code::kFailedPrecondition));
}

TEST_F(ReconcileTest, TheEpochOutlivesMountdAndTheBoot) {
  EXPECT_EQ(Told(Run(7, {})), Texts{});
  core_.Restart();
  EXPECT_THAT(Run(6, {}), IsErr(Code::kFailedPrecondition));
  core_.Restart(/*same_boot=*/false);
  EXPECT_THAT(Run(6, {}), IsErr(Code::kFailedPrecondition));
  EXPECT_EQ(Told(Run(7, {})), Texts{});
}

TEST_F(ReconcileTest, ADryRunOnlyTells) {
  Prepare("a");
  Prepare("b");
  executor().AddHolder(Mount("b"), Process(12));
  EXPECT_EQ(Told(Run(3, {"c"}, true)),
            (Texts{"a unwanted", "b live", "c missing"}));
  EXPECT_EQ(Left(), (Texts{"a", "b"}));
  EXPECT_EQ(Epoch(), std::nullopt);
  EXPECT_EQ(Told(Run(2, {"a", "b"})), (Texts{"a present", "b present"}));
}

TEST_F(ReconcileTest, WhatHasLiveProcessesStaysUntilTheyHaveEnded) {
  Prepare("cgroup", kWebCgroup);
  executor().AddHolder(0, Process(10, 4321), kWebCgroup);
  Prepare("mount");
  executor().AddHolder(Mount("mount"), Process(11));
  Prepare("network");
  ASSERT_THAT(services().networks.SetupNetwork(Core::By(Core::kAgent),
                                               NameOf("network"), {}),
              IsOk());
  executor().AddToNamespace(
      core_.boot->networks.NetworksOf("network")->at(0).netns_inode,
      Process(12, 0));
  const auto entries = Run(1, {});
  ASSERT_EQ(Told(entries),
            (Texts{"cgroup live", "mount live", "network live"}));
  EXPECT_EQ(entries->at(0).reason,
            "processes in its cgroup: sh (pid 10, cgroup)");
  EXPECT_EQ(entries->at(1).reason,
            "processes that use mount task/m: sh (pid 11, cwd)");
  // The process belongs to another user, so its name is left out.
  EXPECT_EQ(entries->at(2).reason,
            "processes in its network namespace: (pid 12)");
  EXPECT_FALSE(entries->at(2).holders->holders.at(0).details.has_value());
  EXPECT_EQ(executor().script().Count("Detach"), 0U);
  executor().EndProcesses();
  EXPECT_EQ(Told(Run(1, {})),
            (Texts{"cgroup released", "mount released", "network released"}));
  EXPECT_TRUE(Left().empty());
}

// mountd trusts a known cgroup: a process elsewhere that reads the logs is no
// task.
TEST_F(ReconcileTest, ProcessesOutsideAKnownCgroupAreNotItsOwn) {
  Prepare("web", kWebCgroup);
  executor().AddHolder(Mount("web"), Process(10));
  EXPECT_EQ(Told(Run(1, {})), Texts{"web released"});
  EXPECT_EQ(executor().script().Count("FindHolders"), 0U);
}

TEST_F(ReconcileTest, APluginThatAnswersLives) {
  Prepare("csi");
  ASSERT_THAT(core_.plugins->Register({"nfs", "node", Core::kAgent, "csi", ""}),
              IsOk());
  ASSERT_TRUE(core_.events.Await("nfs healthy 1"));
  const auto entries = Run(1, {});
  ASSERT_EQ(Told(entries), Texts{"csi live"});
  EXPECT_EQ(entries->at(0).reason, "plugin nfs of it answers");
  ASSERT_THAT(core_.plugins->Unregister("nfs"), IsOk());
  EXPECT_EQ(Told(Run(1, {})), Texts{"csi released"});
}

TEST_F(ReconcileTest, WhereItCannotBeToldItStays) {
  Prepare("web", kWebCgroup);
  executor().FailNext("FindProcesses", Code::kUnavailable);
  auto entries = Run(1, {});
  ASSERT_EQ(Told(entries), Texts{"web live"});
  EXPECT_TRUE(entries->at(0).reason.starts_with(
      "mountd cannot tell whether it has live processes: "))
      << entries->at(0).reason;
  executor().SetBlind(true);
  EXPECT_EQ(Told(Run(1, {})), Texts{"web live"});
  executor().SetBlind(false);
  EXPECT_EQ(Told(Run(1, {})), Texts{"web released"});
}

TEST_F(ReconcileTest, ACgroupThatIsGoneHasNoProcess) {
  executor().PutCgroup(kWebCgroup + 1, "/agent/db");
  Prepare("web", kWebCgroup + 1);
  core_.state->allocations.SetAllocationCgroup("web", 4711).value();
  EXPECT_EQ(Told(Run(1, {})), Texts{"web released"});
}

TEST_F(ReconcileTest, OneThatFailsIsOwedAndTheOthersGo) {
  Prepare("a");
  Prepare("b");
  Prepare("c");
  Mount("b");
  executor().FailNext("Detach", Code::kUnavailable);
  const auto entries = Run(1, {});
  ASSERT_EQ(Told(entries), (Texts{"a released", "b owed", "c released"}));
  EXPECT_NE(entries->at(1).reason, "");
  const auto owed = services().node.ListOwed(Core::By(Core::kAgent));
  ASSERT_EQ(owed->size(), 1U);
  EXPECT_EQ(owed->at(0).object, "b");
  // The allocation is being released, wanted or not.
  EXPECT_EQ(Told(Run(1, {"b"})), Texts{"b owed"});
  EXPECT_EQ(Told(Run(1, {}, true)), Texts{"b unwanted"});
  EXPECT_EQ(Told(Run(1, {})), Texts{"b released"});
  EXPECT_TRUE(services().node.ListOwed(Core::By(Core::kAgent))->empty());
}

TEST_F(ReconcileTest, OneThatHangsHoldsUpNoOther) {
  Prepare("a");
  Mount("a");
  Prepare("b");
  executor().script().Block("Detach");
  std::thread call([&] {
    EXPECT_EQ(Told(Run(1, {})), (Texts{"a released", "b released"}));
  });
  ASSERT_TRUE(executor().script().AwaitBlocked("Detach"));
  EXPECT_TRUE(executor().script().AwaitCalls("RemoveAllocation b", 1));
  executor().script().UnblockAll();
  call.join();
}

TEST_F(ReconcileTest, WantedOnesSayWhatTheyNeed) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  Prepare("web");
  Prepare("bare");
  Mount("web");
  csi::PublishSpec spec;
  spec.allocation = "web";
  spec.alias = "v";
  spec.plugin = "nfs";
  spec.volume_id = "v1";
  ASSERT_THAT(services().volumes.PublishVolume(Core::By(Core::kAgent), spec,
                                               UniqueFd()),
              IsOk());
  auto entries = Run(1, {"bare", "web"});
  EXPECT_EQ(entries->at(0).needs, Texts{"bare"});
  EXPECT_EQ(entries->at(1).needs, Texts{});
  core_.Restart(/*same_boot=*/false);
  ASSERT_THAT(core_.Recover(), IsOk());
  entries = Run(1, {"bare", "web"});
  EXPECT_EQ(Told(entries), (Texts{"bare present", "web present"}));
  EXPECT_EQ(entries->at(1).needs, (Texts{"bare", "volume/v"}));
}

// ---- Beside other calls ----

// Holds the allocation's strand with a job until LetGo.
class HeldStrand {
 public:
  HeldStrand(Strands& strands, const std::string& allocation) {
    strands.Submit(AllocationStrand(allocation),
                   [until = std::shared_future<void>(go_.get_future())] {
                     until.wait_for(kTestPatience);
                   });
  }
  void LetGo() { go_.set_value(); }

 private:
  std::promise<void> go_;
};

TEST_F(ReconcileTest, WhatIsPreparedMeanwhileStays) {
  Prepare("a");
  Prepare("b");
  HeldStrand held(strands_, "a");
  strands_.Submit(AllocationStrand("a"), [&] { Prepare("a"); });
  std::thread call([&] {
    const auto entries = Run(1, {});
    EXPECT_EQ(Told(entries), (Texts{"a present", "b released"}));
    EXPECT_EQ(entries->at(0).reason, "another call prepared it meanwhile");
  });
  // By then Reconcile has looked at all allocations.
  ASSERT_TRUE(executor().script().AwaitCalls("RemoveAllocation b", 1));
  Prepare("c");
  held.LetGo();
  call.join();
  EXPECT_EQ(Left(), (Texts{"a", "c"}));
  EXPECT_EQ(Told(Run(1, {})), (Texts{"a released", "c released"}));
}

TEST_F(ReconcileTest, CallsThatWereUnderWayEndFirst) {
  Prepare("a");
  Prepare("b");
  HeldStrand held(strands_, "a");
  strands_.Submit(AllocationStrand("a"), [&] { Mount("a"); });
  std::thread call([&] {
    EXPECT_EQ(Told(Run(1, {})), (Texts{"a released", "b released"}));
  });
  ASSERT_TRUE(executor().script().AwaitCalls("RemoveAllocation b", 1));
  held.LetGo();
  call.join();
  EXPECT_EQ(executor().script().Count("Attach"), 1U);
  EXPECT_EQ(executor().Existing(), Texts{});
  EXPECT_TRUE(core_.boot->mounts.ListMounts()->empty());
}

TEST_F(ReconcileTest, OneThatIsReleasedMeanwhileHasGone) {
  Prepare("a");
  HeldStrand held(strands_, "a");
  strands_.Submit(AllocationStrand("a"), [&] {
    EXPECT_THAT(services().allocations.ReleaseAllocation(Core::By(Core::kAgent),
                                                         NameOf("a")),
                IsOk());
  });
  Prepare("b");
  std::thread call([&] {
    const auto entries = Run(1, {});
    EXPECT_EQ(Told(entries), (Texts{"a released", "b released"}));
    EXPECT_EQ(entries->at(0).reason, "another call released it");
  });
  ASSERT_TRUE(executor().script().AwaitCalls("RemoveAllocation b", 1));
  held.LetGo();
  call.join();
}

TEST_F(ReconcileTest, ACancelledCallBeginsNoMore) {
  Prepare("a");
  const CallContext call = Core::By(Core::kAgent);
  *call.cancelled = true;
  EXPECT_THAT(
      services().reconciler.Reconcile(call, {"s", 1, {}, false}, strands_),
      IsErr(Code::kAborted));
  EXPECT_EQ(Left(), Texts{"a"});
  EXPECT_EQ(Told(Run(1, {})), Texts{"a released"});
}

TEST_F(ReconcileTest, AStoreThatFailsLosesNothing) {
  Prepare("a");
  {
    const FullDisk full;
    EXPECT_FALSE(Run(1, {}).has_value());
  }
  EXPECT_EQ(Left(), Texts{"a"});
  EXPECT_EQ(Epoch(), std::nullopt);
  // The epoch is recorded, and the first step of the release fails.
  ASSERT_EQ(Told(Run(1, {"a"})), Texts{"a present"});
  {
    const FullDisk full;
    EXPECT_FALSE(Run(1, {}).has_value());
  }
  EXPECT_EQ(core_.state->allocations.GetAllocation("a")->value().state,
            AllocationState::kPrepared);
  EXPECT_EQ(Told(Run(1, {})), Texts{"a released"});
}

TEST_F(ReconcileTest, EachStepThatFailsIsOwedOrLive) {
  Prepare("a", kWebCgroup);
  Mount("a");
  executor().script().Forget();
  ASSERT_EQ(Told(Run(1, {})), Texts{"a released"});
  const std::size_t steps = executor().script().calls().size();
  ASSERT_GE(steps, 3U);
  for (std::size_t n = 1; n <= steps; ++n) {
    for (const FailWhen when : {FailWhen::kBefore, FailWhen::kAfter}) {
      SCOPED_TRACE(n);
      Prepare("a", kWebCgroup);
      Mount("a");
      executor().FailNth(n, Code::kUnavailable, when);
      const Texts told = Told(Run(1, {}));
      executor().script().Clear();
      EXPECT_TRUE(told == Texts{"a live"} || told == Texts{"a owed"} ||
                  told == Texts{"a released"})
          << told.at(0);
      EXPECT_EQ(told == Texts{"a released"}, Left().empty());
      if (!Left().empty()) {
        EXPECT_EQ(Told(Run(1, {})), Texts{"a released"});
      }
    }
  }
}

}  // namespace
}  // namespace mountd
