// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Releases of allocations: the order of the steps, the receipt, and pending
// tear-downs.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <thread>

#include "mountd/service/services.h"
#include "mountd/watch/owed_retrier.h"
#include "tests/support/fakes/failing_store.h"
#include "tests/support/fakes/manual_loop.h"
#include "tests/support/matchers.h"
#include "tests/support/outcome.h"
#include "tests/unit/mountd/service/core_fixture.h"

namespace mountd {
namespace {

using Texts = std::vector<std::string>;
using std::chrono::milliseconds;

class ReleaseTest : public CoreFixture {
 protected:
  void Prepare(const std::string& allocation) {
    ASSERT_THAT(services().allocations.PrepareAllocation(
                    agent_, NameOf(allocation), ""),
                IsOk());
  }
  void Publish(const std::string& allocation, const std::string& volume_id) {
    csi::PublishSpec spec;
    spec.allocation = allocation;
    spec.alias = "alias-" + volume_id;
    spec.plugin = "nfs";
    spec.volume_id = volume_id;
    ASSERT_THAT(services().volumes.PublishVolume(agent_, spec, UniqueFd()),
                IsOk());
  }
  // Makes one object of each kind.
  void Fill() {
    ASSERT_TRUE(core_.AddPlugin("nfs"));
    Prepare("web");
    ASSERT_THAT(services().networks.SetupNetwork(agent_, NameOf("web"), {}),
                IsOk());
    Publish("web", "v1");
    BindMountRequest volume;
    volume.allocation = "web";
    volume.task = "task";
    volume.name = "v";
    volume.wish.source_kind = exec::SourceKind::kPublishedVolume;
    volume.wish.source = "alias-v1";
    ASSERT_THAT(services().mounts.BindMount(agent_, volume), IsOk());
    BindMountRequest data = volume;
    data.name = "d";
    data.wish.source_kind = exec::SourceKind::kHostVolume;
    data.wish.source = "data";
    ASSERT_THAT(services().mounts.BindMount(agent_, data), IsOk());
    executor().script().Forget();
    client().script().Forget();
  }
  Result<ReceiptRecord> Release(const std::string& allocation = "web") {
    return services().allocations.ReleaseAllocation(agent_, NameOf(allocation));
  }
  Result<void> Unpublish() {
    return services().volumes.UnpublishVolume(agent_, NameOf("web"),
                                              NameOf("alias-v1"));
  }
  std::optional<OwedRecord> TheOwed() {
    const auto owed = services().node.ListOwed(agent_).value();
    return owed.size() == 1 ? std::optional<OwedRecord>(owed[0]) : std::nullopt;
  }
  static Texts VolumesOf(const ReceiptRecord& receipt) {
    Texts all;
    for (const ReceiptRecord::Volume& volume : receipt.volumes) {
      all.push_back(volume.plugin + " " + volume.volume_id +
                    (volume.unstaged ? " unstaged" : ""));
    }
    return all;
  }

  const Texts only_the_plugin_ = {"plugin nfs"};
};

TEST_F(ReleaseTest, TakesAllAwayAndGivesAReceipt) {
  Fill();
  const auto receipt = Release();
  ASSERT_THAT(receipt, IsOk());
  EXPECT_EQ(receipt->allocation, "web");
  EXPECT_EQ(receipt->uid, Core::kAgent);
  EXPECT_NE(receipt->serial, 0U);
  EXPECT_NE(receipt->released_at_us, 0U);
  EXPECT_EQ(VolumesOf(*receipt), Texts{"nfs v1 unstaged"});
  EXPECT_EQ(executor().Existing(), only_the_plugin_);
  EXPECT_TRUE(client().Staged().empty());
  EXPECT_THAT(services().allocations.GetAllocation(agent_, NameOf("web")),
              IsErr(Code::kNotFound));
  EXPECT_TRUE(services().node.ListOwed(CallContext{})->empty());
}

TEST_F(ReleaseTest, MayBeForBareAllocationsAlone) {
  const auto release = [this](OnlyIf only_if) {
    return services().allocations.ReleaseAllocation(agent_, NameOf("web"),
                                                    OnTasks::kRefuse, only_if);
  };
  Fill();
  ASSERT_THAT(core_.plugins->Register({"own", "node", Core::kAgent, "web", ""}),
              IsOk());
  const auto all = executor().Existing();
  EXPECT_THAT(release(OnlyIf::kUnused),
              IsErrOf(Code::kBusy,
                      "allocation web: has volume alias-v1, mount "
                      "task/d, mount task/v and 1 more"));
  EXPECT_EQ(executor().Existing(), all);
  ASSERT_THAT(services().mounts.Unmount(agent_, NameOf("web"), NameOf("task"),
                                        NameOf("v"), exec::UnmountMode::kPlain),
              IsOk());
  ASSERT_THAT(services().mounts.Unmount(agent_, NameOf("web"), NameOf("task"),
                                        NameOf("d"), exec::UnmountMode::kPlain),
              IsOk());
  ASSERT_THAT(Unpublish(), IsOk());
  EXPECT_THAT(release(OnlyIf::kUnused),
              IsErrOf(Code::kBusy, "allocation web: has plugin own"));
  ASSERT_THAT(services().plugins.UnregisterPlugin(agent_, NameOf("own"), {}),
              IsOk());
  EXPECT_THAT(release(OnlyIf::kEmpty),
              IsErrOf(Code::kBusy, "allocation web: has network eth0"));
  EXPECT_THAT(release(OnlyIf::kUnused), IsOk());
  EXPECT_EQ(executor().Existing(), only_the_plugin_);
}

// A process may bind an inbox that it has open into a task at any moment.
TEST_F(ReleaseTest, OpenInboxesAreAUse) {
  const auto release = [this](OnlyIf only_if) {
    return services().allocations.ReleaseAllocation(agent_, NameOf("web"),
                                                    OnTasks::kRefuse, only_if);
  };
  for (const OnlyIf only_if : {OnlyIf::kUnused, OnlyIf::kEmpty}) {
    Prepare("web");
    ASSERT_THAT(services().inboxes.PrepareInbox(agent_, {"web", "task"}, true),
                IsOk());
    exec::Holder holder;
    holder.pid = 7;
    holder.uid = Core::kAgent;
    holder.kind = exec::HolderKind::kFd;
    const std::uint64_t opened = executor().last_handed_out();
    executor().AddHolder(opened, holder, 0);
    EXPECT_THAT(release(only_if),
                IsErrOf(Code::kBusy, "allocation web: has inbox task"));
    EXPECT_THAT(services().allocations.GetAllocation(agent_, NameOf("web")),
                IsOk());
    executor().EndProcesses();
    EXPECT_THAT(release(only_if), IsOk()) << "the inbox is closed";
  }
}

// The call that released it names the receipt. A later call only reads it.
TEST_F(ReleaseTest, TheReceiptHasTheNamesOfTheCall) {
  constexpr char kParent[] =
      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  Fill();
  {
    OperationTrace trace({ParseTraceParent(kParent), "r1"},
                         OperationTrace::Clock::now());
    const CurrentTrace current(&trace);
    ASSERT_THAT(Release(), IsOk());
  }
  OperationTrace other({std::nullopt, "r2"}, OperationTrace::Clock::now());
  const CurrentTrace current(&other);
  const auto again = Release();
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->traceparent, kParent);
  EXPECT_EQ(again->request_id, "r1");
}

TEST_F(ReleaseTest, TheOrderIsFromTheTaskDown) {
  Fill();
  // One list of both fakes' calls would need one clock, so the test stops each
  // fake in turn and looks at the other.
  client().script().Block("NodeUnpublishVolume");
  std::thread releasing([this] { EXPECT_THAT(Release(), IsOk()); });
  ASSERT_TRUE(client().script().AwaitBlocked("NodeUnpublishVolume"));
  EXPECT_EQ(executor().script().Count("Detach"), 2U);
  EXPECT_EQ(executor().script().Count("RemoveVolumeDir"), 0U);
  EXPECT_EQ(executor().script().Count("DeleteNetwork"), 0U);
  client().script().Block("NodeUnstageVolume");
  client().script().Unblock("NodeUnpublishVolume");
  ASSERT_TRUE(client().script().AwaitBlocked("NodeUnstageVolume"));
  EXPECT_EQ(executor().script().Count("RemoveVolumeDir nfs/publish/web/"), 1U);
  EXPECT_EQ(executor().script().Count("DeleteNetwork"), 0U);
  client().script().Unblock("NodeUnstageVolume");
  releasing.join();
  const Texts calls = executor().script().calls();
  const auto at = [&](const std::string& text) {
    return std::find_if(calls.begin(), calls.end(), [&](const auto& call) {
      return call.starts_with(text);
    });
  };
  EXPECT_LT(at("RemoveVolumeDir nfs/staging/"), at("DeleteNetwork web"));
  EXPECT_LT(at("DeleteNetwork web"), at("RemoveAllocation web"));
  EXPECT_EQ(calls.back(), "RemoveAllocation web");
}

TEST_F(ReleaseTest, ReleasedAgainAnswersTheSameReceipt) {
  Fill();
  const auto first = Release();
  ASSERT_THAT(first, IsOk());
  core_.Restart();
  const auto second = Release();
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(second->serial, first->serial);
  EXPECT_EQ(second->released_at_us, first->released_at_us);
  EXPECT_EQ(VolumesOf(*second), VolumesOf(*first));
  EXPECT_EQ(services().allocations.GetReceipt(agent_, NameOf("web"))->serial,
            first->serial);
  EXPECT_THAT(
      services().allocations.GetReceipt(Core::By(Core::kOther), NameOf("web")),
      IsErr(Code::kPermissionDenied));
}

TEST_F(ReleaseTest, ANameUsedAgainHasANewReceipt) {
  Prepare("web");
  const auto first = Release();
  Prepare("web");
  EXPECT_THAT(services().allocations.GetReceipt(agent_, NameOf("web")),
              IsErr(Code::kNotFound));
  const auto second = Release();
  ASSERT_THAT(second, IsOk());
  EXPECT_GT(second->serial, first->serial);
}

TEST_F(ReleaseTest, AnUnknownAllocationIsNotFound) {
  EXPECT_THAT(Release(), IsErr(Code::kNotFound));
  EXPECT_TRUE(executor().plans().empty());
}

TEST_F(ReleaseTest, AVolumeThatAnotherUsesStaysStaged) {
  Fill();
  Prepare("db");
  Publish("db", "v1");
  EXPECT_EQ(VolumesOf(*Release("web")), Texts{"nfs v1"});
  EXPECT_EQ(client().Staged().size(), 1U);
  EXPECT_EQ(VolumesOf(*Release("db")), Texts{"nfs v1 unstaged"});
  EXPECT_TRUE(client().Staged().empty());
}

TEST_F(ReleaseTest, TheReceiptTellsVolumesUnpublishedBefore) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  Prepare("web");
  Publish("web", "v1");
  Publish("web", "v2");
  ASSERT_THAT(Unpublish(), IsOk());
  EXPECT_EQ(VolumesOf(*Release()),
            (Texts{"nfs v1 unstaged", "nfs v2 unstaged"}));
}

// Each step of the release fails once. The release is then pending and the
// allocation unusable, and the next try finishes.
struct Step {
  const char* name;
  const char* plan;    // the executor's, or
  const char* rpc;     // the plugin's
  const char* leaves;  // among the rest on the machine
};

void PrintTo(const Step& step, std::ostream* out) { *out << step.name; }

class FailingReleaseTest : public ReleaseTest,
                           public ::testing::WithParamInterface<Step> {};

TEST_P(FailingReleaseTest, IsOwedAndFinishedLater) {
  Fill();
  for (const FailWhen when : {FailWhen::kBefore, FailWhen::kAfter}) {
    if (GetParam().plan != nullptr) {
      executor().FailNext(GetParam().plan, Code::kUnavailable, when);
    } else {
      client().FailNext(GetParam().rpc, csi::RpcCode::kInternal, when);
    }
    EXPECT_EQ(Outcome(Release()),
              GetParam().plan != nullptr ? "Unavailable" : "Internal");
    EXPECT_THAT(services().allocations.GetReceipt(agent_, NameOf("web")),
                IsErr(Code::kNotFound));
    if (when == FailWhen::kBefore) {
      const Texts left = executor().Existing();
      EXPECT_NE(std::find(left.begin(), left.end(), GetParam().leaves),
                left.end())
          << ::testing::PrintToString(left);
    }
  }
  const OwedRecord owed = TheOwed().value();
  EXPECT_EQ(owed.kind, OwedKind::kRelease);
  EXPECT_EQ(owed.object, "web");
  EXPECT_EQ(owed.uid, Core::kAgent);
  EXPECT_EQ(owed.attempts, 2U);
  EXPECT_FALSE(owed.reason.empty());
  EXPECT_TRUE(services().node.ListOwed(Core::By(Core::kOther))->empty());
  if (GetParam().name == std::string_view("RemoveAllocation")) {
    // Only the directory is left, so PrepareAllocation finishes the release.
    Prepare("web");
    EXPECT_TRUE(services().node.ListOwed(CallContext{})->empty());
    return;
  }
  EXPECT_THAT(
      services().allocations.PrepareAllocation(agent_, NameOf("web"), ""),
      IsErr(Code::kFailedPrecondition));

  EXPECT_THAT(services().node.RetryOwed(owed), IsOk());
  EXPECT_TRUE(services().node.ListOwed(CallContext{})->empty());
  EXPECT_EQ(executor().Existing(), only_the_plugin_);
  const auto receipt = Release();
  ASSERT_THAT(receipt, IsOk());
  EXPECT_EQ(VolumesOf(*receipt), Texts{"nfs v1 unstaged"});
}

constexpr Step kSteps[] = {
    {"Detach", "Detach", nullptr, "mount web/task/v"},
    {"Unpublish", nullptr, "NodeUnpublishVolume", "plugin nfs"},
    {"Unstage", nullptr, "NodeUnstageVolume", "allocation web"},
    {"RemoveVolumeDir", "RemoveVolumeDir", nullptr, "allocation web"},
    {"DeleteNetwork", "DeleteNetwork", nullptr, "network web"},
    {"RemoveAllocation", "RemoveAllocation", nullptr, "allocation web"},
};

INSTANTIATE_TEST_SUITE_P(Steps, FailingReleaseTest, ::testing::ValuesIn(kSteps),
                         [](const auto& test) {
                           return std::string(test.param.name);
                         });

TEST_F(ReleaseTest, AMountThatIsBusyKeepsItsVolumeAndNothingElse) {
  Fill();
  executor().SetBusy("web/task/v");
  EXPECT_THAT(Release(), IsErr(Code::kBusy));
  EXPECT_EQ(client().Published().size(), 1U);
  EXPECT_EQ(client().script().Count("NodeUnpublishVolume"), 0U);
  EXPECT_EQ(executor().script().Count("DeleteNetwork"), 1U);
  EXPECT_EQ(executor().AnchorOf("data"), 0U);
  executor().SetBusy("web/task/v", false);
  EXPECT_THAT(Release(), IsOk());
  EXPECT_TRUE(services().node.ListOwed(CallContext{})->empty());
}

TEST_F(ReleaseTest, AnUnpublishThatFailsIsOwedByItself) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  Prepare("web");
  Publish("web", "v1");
  client().FailNext("NodeUnpublishVolume", csi::RpcCode::kInternal);
  EXPECT_THAT(Unpublish(), IsErr(Code::kInternal));
  const OwedRecord owed = TheOwed().value();
  EXPECT_EQ(owed.kind, OwedKind::kUnpublish);
  EXPECT_EQ(owed.object, "web/alias-v1");
  EXPECT_THAT(services().node.RetryOwed(owed), IsOk());
  EXPECT_TRUE(services().node.ListOwed(CallContext{})->empty());
  EXPECT_TRUE(client().Staged().empty());
  EXPECT_THAT(Unpublish(), IsOk());
}

TEST_F(ReleaseTest, AnUnmountOrATeardownThatFailsIsOwedByItself) {
  Fill();
  executor().FailNext("Detach", Code::kUnavailable, FailWhen::kAfter);
  EXPECT_THAT(services().mounts.Unmount(agent_, NameOf("web"), NameOf("task"),
                                        NameOf("v")),
              IsErr(Code::kUnavailable));
  executor().FailNext("DeleteNetwork", Code::kUnavailable);
  EXPECT_THAT(services().networks.TeardownNetwork(agent_, NameOf("web")),
              IsErr(Code::kUnavailable));
  const auto owed = services().node.ListOwed(agent_).value();
  ASSERT_EQ(owed.size(), 2U);
  EXPECT_EQ(OwedKindName(owed[0].kind), "unmount");
  EXPECT_EQ(owed[0].object, "web/task/v");
  EXPECT_EQ(OwedKindName(owed[1].kind), "teardown-network");
  EXPECT_EQ(owed[1].object, "web/eth0");
  for (const OwedRecord& one : owed) {
    EXPECT_THAT(services().node.RetryOwed(one), IsOk());
  }
  EXPECT_TRUE(services().node.ListOwed(CallContext{})->empty());
  EXPECT_EQ(services()
                .allocations.GetAllocation(agent_, NameOf("web"))
                ->mounts.size(),
            1U);
  EXPECT_TRUE(services()
                  .allocations.GetAllocation(agent_, NameOf("web"))
                  ->networks.empty());
}

TEST_F(ReleaseTest, ABusyMountIsNotOwed) {
  Fill();
  executor().SetBusy("web/task/d");
  EXPECT_THAT(services().mounts.Unmount(agent_, NameOf("web"), NameOf("task"),
                                        NameOf("d")),
              IsErr(Code::kBusy));
  EXPECT_TRUE(services().node.ListOwed(CallContext{})->empty());
}

TEST_F(ReleaseTest, WhatARestartCouldNotFinishIsOwed) {
  Fill();
  executor().FailNext("Detach", Code::kUnavailable);
  executor().FailNext("DeleteNetwork", Code::kUnavailable, FailWhen::kBefore,
                      2);
  EXPECT_THAT(core_.mounts->Unmount("web", "task", "d"),
              IsErr(Code::kUnavailable));
  EXPECT_THAT(core_.networks->Teardown("web", "eth0"),
              IsErr(Code::kUnavailable));
  core_.Restart();
  ASSERT_THAT(core_.Recover(), IsOk());
  const auto owed = services().node.ListOwed(agent_).value();
  ASSERT_EQ(owed.size(), 2U);
  for (const OwedRecord& one : owed) {
    EXPECT_EQ(one.uid, Core::kAgent);
    EXPECT_THAT(services().node.RetryOwed(one), IsOk());
  }
  EXPECT_TRUE(services().node.ListOwed(CallContext{})->empty());
  EXPECT_EQ(executor().MountIdOf("web/task/d"), 0U);
}

// A tear-down that the retrier has listed may be done by its turn, and the name
// may be in use again.
TEST_F(ReleaseTest, WhatIsNoLongerOwedIsNotTriedAgain) {
  Prepare("web");
  executor().FailNext("RemoveAllocation", Code::kUnavailable);
  EXPECT_THAT(Release(), IsErr(Code::kUnavailable));
  const OwedRecord stale = TheOwed().value();
  ASSERT_THAT(Release(), IsOk());
  Prepare("web");
  // Another tear-down is pending, and stays so.
  Prepare("db");
  executor().FailNext("RemoveAllocation", Code::kUnavailable);
  EXPECT_THAT(Release("db"), IsErr(Code::kUnavailable));
  EXPECT_THAT(services().node.RetryOwed(stale), IsOk());
  EXPECT_EQ(executor().Existing(), (Texts{"allocation db", "allocation web"}));
  EXPECT_EQ(TheOwed().value().object, "db");
  EXPECT_THAT(services().allocations.GetAllocation(agent_, NameOf("web")),
              IsOk());
}

TEST_F(ReleaseTest, AVolumePublishedAnewIsNotUnpublished) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  Prepare("web");
  Publish("web", "v1");
  client().FailNext("NodeUnpublishVolume", csi::RpcCode::kInternal);
  EXPECT_THAT(Unpublish(), IsErr(Code::kInternal));
  const OwedRecord stale = TheOwed().value();
  ASSERT_THAT(Unpublish(), IsOk());
  Publish("web", "v1");
  EXPECT_THAT(services().node.RetryOwed(stale), IsOk());
  EXPECT_EQ(client().Published().size(), 1U);
}

// ---- After a restart ----

TEST_F(ReleaseTest, AReleaseThatWasCutOffIsOwed) {
  Fill();
  executor().FailNext("DeleteNetwork", Code::kUnavailable);
  EXPECT_THAT(Release(), IsErr(Code::kUnavailable));
  ASSERT_THAT(core_.state->owed.RemoveOwed(OwedKind::kRelease, "web"), IsOk());
  core_.Restart();
  ASSERT_THAT(core_.Recover(), IsOk());
  ASSERT_TRUE(core_.events.Await("nfs healthy 1"));
  const OwedRecord owed = TheOwed().value();
  EXPECT_EQ(owed.object, "web");
  EXPECT_THAT(services().node.RetryOwed(owed), IsOk());
  EXPECT_EQ(executor().Existing(), only_the_plugin_);
}

TEST_F(ReleaseTest, ARebootKeepsAllocationsAndVolumesInDoubt) {
  Fill();
  core_.Restart(/*same_boot=*/false);
  ASSERT_THAT(core_.Recover(), IsOk());
  ASSERT_TRUE(core_.events.Await("nfs healthy 1"));
  EXPECT_EQ(executor().Existing(), (Texts{"allocation web", "plugin nfs"}));
  const auto status =
      services().allocations.GetAllocation(agent_, NameOf("web"));
  ASSERT_THAT(status, IsOk());
  EXPECT_TRUE(status->mounts.empty());
  EXPECT_TRUE(status->networks.empty());
  ASSERT_EQ(status->volumes.size(), 1U);
  EXPECT_EQ(status->volumes[0].record.state, PublicationState::kUncertain);
  // The same call brings the volume back, and the release still undoes it.
  Publish("web", "v1");
  EXPECT_EQ(client().Staged().size(), 1U);
  EXPECT_EQ(VolumesOf(*Release()), Texts{"nfs v1 unstaged"});
  EXPECT_EQ(executor().Existing(), only_the_plugin_);
}

TEST_F(ReleaseTest, AnUnpublishUnderWayIsStillOwedAfterAReboot) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  Prepare("web");
  Publish("web", "v1");
  client().FailNext("NodeUnpublishVolume", csi::RpcCode::kInternal);
  EXPECT_THAT(Unpublish(), IsErr(Code::kInternal));
  core_.Restart(/*same_boot=*/false);
  ASSERT_THAT(core_.Recover(), IsOk());
  EXPECT_EQ(TheOwed().value().object, "web/alias-v1");
  EXPECT_EQ(
      core_.state->volumes.GetPublication("web", "alias-v1")->value().state,
      PublicationState::kUnpublishing);
}

// ---- The retrier ----

// Waits for the jobs of a retrier on its pool's only thread, because they must
// not outlive the retrier.
void AwaitJobs(Strands& strands, ManualLoop& loop) {
  bool over = false;
  strands.Submit("", [&] { loop.Post([&] { over = true; }); });
  ASSERT_TRUE(loop.RunUntil([&] { return over; }));
}

TEST_F(ReleaseTest, TheRetrierTriesUntilNothingIsOwed) {
  Prepare("web");
  ManualLoop loop;
  std::vector<std::uint32_t> counts;
  WorkerPool pool(1);
  Strands strands(pool);
  OwedRetrier retrier(loop, strands, services().node,
                      [&](const OwedSummary& owed) {
                        EXPECT_EQ(owed.count == 0, owed.since_us == 0);
                        if (counts.empty() || counts.back() != owed.count) {
                          counts.push_back(owed.count);
                        }
                      });
  executor().FailNext("RemoveAllocation", Code::kUnavailable, FailWhen::kBefore,
                      4);
  EXPECT_THAT(Release(), IsErr(Code::kUnavailable));
  retrier.Check();
  std::vector<milliseconds> pauses;
  while (counts.empty() || counts.back() != 0) {
    ASSERT_TRUE(loop.RunUntil([&] {
      return loop.timer_count() > 0 || (!counts.empty() && counts.back() == 0);
    }));
    for (const milliseconds pause : loop.FireTimers()) {
      pauses.push_back(pause);
    }
  }
  EXPECT_EQ(counts, (std::vector<std::uint32_t>{1, 0}));
  EXPECT_EQ(pauses, (std::vector{milliseconds(1000), milliseconds(2000),
                                 milliseconds(4000), milliseconds(8000)}));
  EXPECT_TRUE(executor().Existing().empty());
  AwaitJobs(strands, loop);
}

// The first failure has the later time, because the clock was set back in
// between.
TEST_F(ReleaseTest, TheOldestIsWhatFailedFirst) {
  for (const std::uint64_t since_us : {22U, 11U}) {
    const OwedRecord owed{0,
                          OwedKind::kRelease,
                          std::to_string(since_us),
                          Core::kAgent,
                          "",
                          1,
                          since_us};
    ASSERT_THAT(core_.state->owed.AddOwed(owed), IsOk());
  }
  ManualLoop loop;
  WorkerPool pool(1);
  Strands strands(pool);
  std::vector<OwedSummary> told;
  OwedRetrier retrier(loop, strands, services().node,
                      [&](const OwedSummary& owed) { told.push_back(owed); });
  retrier.Check();
  ASSERT_TRUE(loop.RunUntil([&] { return loop.timer_count() == 1; }));
  EXPECT_EQ(told.front(), (OwedSummary{2, 22}));
  AwaitJobs(strands, loop);
}

TEST_F(ReleaseTest, TheRetrierDoesNothingWithAListThatItCannotHave) {
  Prepare("web");
  executor().FailNext("RemoveAllocation", Code::kUnavailable);
  EXPECT_THAT(Release(), IsErr(Code::kUnavailable));
  ManualLoop loop;
  int told = 0;
  WorkerPool pool(1);  // one thread keeps the jobs' order
  Strands strands(pool);
  OwedRetrier retrier(loop, strands, services().node,
                      [&](const auto&) { ++told; });
  const auto check = [&] {
    retrier.Check();
    AwaitJobs(strands, loop);
  };
  {
    const LockedTable locked(core_.state->database(), "owed");
    check();
  }
  EXPECT_EQ(told, 0);
  EXPECT_EQ(loop.timer_count(), 0U);
  check();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(loop.timer_count(), 1U);
}

TEST_F(ReleaseTest, TheRetrierRestsWhenNothingIsOwed) {
  ManualLoop loop;
  WorkerPool pool(1);  // one thread keeps the jobs' order
  Strands strands(pool);
  OwedRetrier retrier(
      loop, strands, services().node,
      [](const OwedSummary& owed) { EXPECT_EQ(owed, OwedSummary()); });
  retrier.Check();
  AwaitJobs(strands, loop);
  EXPECT_EQ(loop.timer_count(), 0U);
}

// ---- Tasks with copies of what the release removes ----

class ReleaseUnderTasksTest : public ReleaseTest {
 protected:
  static exec::Holder Task() {
    exec::Holder holder;
    holder.pid = 4711;
    holder.comm = {'s', 'h'};
    return holder;
  }
  Result<ReceiptRecord> ReleaseBut(OnTasks on_tasks) {
    return services().allocations.ReleaseAllocation(agent_, NameOf("web"),
                                                    on_tasks);
  }
  Result<void> UnpublishBut(OnTasks on_tasks) {
    return services().volumes.UnpublishVolume(agent_, NameOf("web"),
                                              NameOf("alias-v1"), on_tasks);
  }
  std::uint64_t PublishedMount() {
    return core_.state->volumes.PublicationsOf("web")->front().mount_id;
  }
};

TEST_F(ReleaseUnderTasksTest, IsRefusedBeforeAnythingGoes) {
  Fill();
  executor().AddCopy(PublishedMount(), "nfs", Task());
  const Texts before = executor().Existing();
  const auto released = Release();
  EXPECT_THAT(released, IsErr(Code::kBusy));
  EXPECT_NE(MessageOf(released).find("sh (pid 4711, mount)"), std::string::npos)
      << MessageOf(released);
  EXPECT_EQ(executor().Existing(), before);
  // mountd only probes the plugin.
  EXPECT_EQ(client().script().Count(""), client().script().Count("Probe "));
  EXPECT_TRUE(services().node.ListOwed(CallContext{})->empty());
  EXPECT_EQ(
      services().allocations.GetAllocation(agent_, NameOf("web"))->record.state,
      AllocationState::kPrepared);
  executor().EndProcesses();
  EXPECT_THAT(Release(), IsOk());
}

// One search covers all mounts, and there is none if nothing is mounted.
TEST_F(ReleaseUnderTasksTest, AreLookedForOnceForAllMounts) {
  Prepare("bare");
  EXPECT_THAT(Release("bare"), IsOk());
  EXPECT_EQ(executor().script().Count("FindCopies"), 0U);
  Fill();
  EXPECT_THAT(Release(), IsOk());
  // Two searches are for the volume: the first finds its file system, and the
  // second comes after the unstage.
  EXPECT_EQ(executor().script().Count("FindCopies nfs"), 2U);
  EXPECT_EQ(executor().script().Count("FindCopies"), 3U);
}

TEST_F(ReleaseUnderTasksTest, ASearchThatDoesNotSeeAllMeansThatThereMayBeSome) {
  Fill();
  executor().SetBlind(true);
  EXPECT_THAT(Release(), IsErr(Code::kBusy));
  EXPECT_THAT(ReleaseBut(OnTasks::kIgnore), IsOk());
  EXPECT_TRUE(services()
                  .allocations.GetReceipt(agent_, NameOf("web"))
                  ->volumes.at(0)
                  .owed);
  executor().SetBlind(false);
  EXPECT_THAT(services().node.RetryOwed(*TheOwed()), IsOk());
  EXPECT_FALSE(services()
                   .allocations.GetReceipt(agent_, NameOf("web"))
                   ->volumes.at(0)
                   .owed);
}

TEST_F(ReleaseUnderTasksTest, WaitsUntilTheyHaveNone) {
  Fill();
  executor().AddCopy(PublishedMount(), "nfs", Task());
  executor().script().Forget();
  std::thread releasing(
      [this] { EXPECT_THAT(ReleaseBut(OnTasks::kWait), IsOk()); });
  while (executor().script().Count("FindCopies") < 3U) {
    std::this_thread::yield();
  }
  EXPECT_EQ(executor().script().Count("Detach"), 0U);
  executor().EndProcesses();
  releasing.join();
  EXPECT_EQ(executor().Existing(), only_the_plugin_);
}

// The wait takes `rpc_retries_ms`.
TEST_F(ReleaseUnderTasksTest, AWaitThatTakesTooLongHasDoneNothing) {
  Fill();
  executor().AddCopy(PublishedMount(), "nfs", Task());
  const Texts before = executor().Existing();
  executor().script().Forget();
  const auto released = ReleaseBut(OnTasks::kWait);
  EXPECT_THAT(released, IsErr(Code::kBusy));
  EXPECT_NE(MessageOf(released).find("sh (pid 4711, mount)"), std::string::npos)
      << MessageOf(released);
  EXPECT_GT(executor().script().Count("FindCopies"), 1U);
  EXPECT_EQ(executor().Existing(), before);
  EXPECT_TRUE(services().node.ListOwed(CallContext{})->empty());
  executor().EndProcesses();
  EXPECT_THAT(ReleaseBut(OnTasks::kWait), IsOk());
}

TEST_F(ReleaseUnderTasksTest, AWaitThatIsCancelledHasDoneNothing) {
  Fill();
  executor().AddCopy(PublishedMount(), "nfs", Task());
  const Texts before = executor().Existing();
  agent_.cancelled->store(true);
  EXPECT_THAT(ReleaseBut(OnTasks::kWait), IsErr(Code::kAborted));
  EXPECT_EQ(executor().Existing(), before);
}

TEST_F(ReleaseUnderTasksTest, IgnoredTheVolumeStaysUntilTheyHaveNone) {
  Fill();
  executor().AddCopy(PublishedMount(), "nfs", Task());
  const auto receipt = ReleaseBut(OnTasks::kIgnore);
  ASSERT_THAT(receipt, IsOk());
  ASSERT_EQ(receipt->volumes.size(), 1U);
  EXPECT_TRUE(receipt->volumes[0].owed);
  EXPECT_EQ(client().script().Count("NodeUnpublishVolume"), 0U);
  EXPECT_EQ(client().script().Count("NodeUnstageVolume"), 0U);
  ASSERT_TRUE(TheOwed());
  EXPECT_EQ(TheOwed()->kind, OwedKind::kUnstage);
  EXPECT_THAT(services().node.RetryOwed(*TheOwed()), IsErr(Code::kBusy));
  core_.Restart();
  ASSERT_THAT(core_.Recover(), IsOk());
  ASSERT_TRUE(core_.events.Await("nfs healthy 1"));
  ASSERT_TRUE(TheOwed());
  EXPECT_THAT(services().node.RetryOwed(*TheOwed()), IsErr(Code::kBusy));
  EXPECT_TRUE(services()
                  .allocations.GetReceipt(agent_, NameOf("web"))
                  ->volumes[0]
                  .owed);
  executor().EndProcesses();
  EXPECT_THAT(services().node.RetryOwed(*TheOwed()), IsOk());
  const auto later = services().allocations.GetReceipt(agent_, NameOf("web"));
  EXPECT_FALSE(later->volumes[0].owed);
  EXPECT_TRUE(later->volumes[0].unstaged);
  EXPECT_TRUE(client().Staged().empty());
  EXPECT_EQ(executor().Existing(), only_the_plugin_);
}

// A process elsewhere on the node has the copy. Only the last search finds it,
// and then no receipt says that the volume is detached.
TEST_F(ReleaseUnderTasksTest, OneThatGotACopyMeanwhileKeepsItFromBeingTold) {
  Fill();
  client().script().Block("NodeUnstageVolume");
  std::thread releasing([this] { EXPECT_THAT(Release(), IsErr(Code::kBusy)); });
  ASSERT_TRUE(client().script().AwaitBlocked("NodeUnstageVolume"));
  executor().AddCopy(0, "nfs", Task());
  client().script().Unblock("NodeUnstageVolume");
  releasing.join();
  EXPECT_THAT(services().allocations.GetReceipt(agent_, NameOf("web")),
              IsErr(Code::kNotFound));
  ASSERT_TRUE(TheOwed());
  EXPECT_THAT(services().node.RetryOwed(*TheOwed()), IsErr(Code::kBusy));
  executor().EndProcesses();
  EXPECT_THAT(services().node.RetryOwed(*TheOwed()), IsOk());
  EXPECT_FALSE(services()
                   .allocations.GetReceipt(agent_, NameOf("web"))
                   ->volumes[0]
                   .owed);
}

TEST_F(ReleaseUnderTasksTest, AnUnpublishIsTheSame) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  Prepare("web");
  Publish("web", "v1");
  executor().AddCopy(0, "nfs", Task());
  EXPECT_THAT(Unpublish(), IsErr(Code::kBusy));
  EXPECT_FALSE(TheOwed());
  EXPECT_EQ(core_.state->volumes.PublicationsOf("web")->front().state,
            PublicationState::kPublished);
  EXPECT_THAT(UnpublishBut(OnTasks::kIgnore), IsOk());
  ASSERT_TRUE(TheOwed());
  EXPECT_EQ(TheOwed()->kind, OwedKind::kUnstage);
  executor().EndProcesses();
  EXPECT_THAT(services().node.RetryOwed(*TheOwed()), IsOk());
  EXPECT_TRUE(client().Staged().empty());
}

}  // namespace
}  // namespace mountd
