// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Long calls report their progress.
#include "mountd/base/progress.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <thread>

#include "mountd/service/services.h"
#include "tests/support/eventually.h"
#include "tests/support/fakes/core.h"
#include "tests/support/matchers.h"
#include "tests/unit/mountd/service/core_fixture.h"

namespace mountd {
namespace {

using csi::RpcCode;
using testing::Eventually;

// Returns a configuration with which tries go on for as long as a test looks.
Config PatientConfig() {
  Config config = Core::DefaultConfig();
  config.timeouts.rpc_retries = std::chrono::milliseconds(60'000);
  return config;
}

// The fakes hold a step, and the test's thread looks at it.
class ProgressTest : public CoreFixture {
 protected:
  ProgressTest() : CoreFixture(PatientConfig()) {}
  ~ProgressTest() override {
    client().script().UnblockAll();
    executor().script().UnblockAll();
    for (std::thread& one : threads_) {
      one.join();
    }
  }
  void SetUp() override {
    ASSERT_TRUE(core_.AddPlugin("nfs"));
    Prepare("web");
    Prepare("db");
  }

  void Prepare(const std::string& allocation) {
    ASSERT_THAT(services().allocations.PrepareAllocation(
                    Core::By(Core::kAgent), NameOf(allocation), "s"),
                IsOk());
  }
  static csi::PublishSpec Spec(const std::string& allocation = "web") {
    csi::PublishSpec spec;
    spec.allocation = allocation;
    spec.alias = "data";
    spec.plugin = "nfs";
    spec.volume_id = "v1";
    spec.capability.access_mode = csi::AccessMode::kMultiNodeMultiWriter;
    return spec;
  }
  static BindMountRequest Mount(const std::string& name, exec::SourceKind kind,
                                const std::string& source) {
    BindMountRequest spec;
    spec.allocation = "web";
    spec.task = "task";
    spec.name = name;
    spec.wish.source_kind = kind;
    spec.wish.source = source;
    return spec;
  }
  // Runs `work` beside the test.
  template <typename F>
  void Begin(F work) {
    threads_.emplace_back(std::move(work));
  }
  void BeginPublish(const CallContext& call, const csi::PublishSpec& spec) {
    Begin([this, call, spec] {
      IgnoreBecauseBestEffort(
          services().volumes.PublishVolume(call, spec, UniqueFd()));
    });
  }
  // Returns text such as "stage 0/0 attempt 1".
  static std::string TextOf(const Progress& progress) {
    const Progress::Status now = progress.Get();
    std::string text = std::string(StepName(now.step)) + " " +
                       std::to_string(now.done) + "/" +
                       std::to_string(now.total);
    text += now.attempt == 0 ? "" : " attempt " + std::to_string(now.attempt);
    return now.error ? text + " " + std::string(CodeName(*now.error)) : text;
  }
  static ::testing::AssertionResult Becomes(const Progress& progress,
                                            const std::string& text) {
    if (Eventually([&] { return TextOf(progress) == text; })) {
      return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure() << TextOf(progress);
  }

  std::vector<std::thread> threads_;
  const CallContext call_ = Core::By(Core::kAgent);
};

TEST_F(ProgressTest, EachStepHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(Step::kEnd); ++i) {
    const std::string_view name = StepName(static_cast<Step>(i));
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz-"),
              std::string_view::npos)
        << name;
  }
}

TEST_F(ProgressTest, CopiesAreOfTheSameOperation) {
  const Progress copy = call_.progress;
  copy.Expect(2);
  copy.Advance();
  EXPECT_EQ(TextOf(call_.progress), "queue 1/2");
  EXPECT_EQ(call_.progress.Get().changes, 2U);
}

TEST_F(ProgressTest, PublishTellsItsCallsTriesAndWhyTheyFail) {
  client().FailNext("NodeStageVolume", RpcCode::kDeadlineExceeded,
                    FailWhen::kBefore, CallScript<csi::RpcError>::kAlways);
  BeginPublish(call_, Spec());
  EXPECT_TRUE(Eventually([&] { return call_.progress.Get().attempt > 2; }));
  EXPECT_EQ(call_.progress.Get().step, Step::kStage);
  EXPECT_EQ(call_.progress.Get().error, Code::kDeadlineExceeded);
  client().script().Block("NodePublishVolume");
  client().script().Clear();
  ASSERT_TRUE(client().script().AwaitBlocked("NodePublishVolume"));
  // The current call has not failed, so the last error of another call is gone.
  EXPECT_EQ(TextOf(call_.progress), "publish 0/0 attempt 1");
}

// The fence's own try has not failed yet, because the call is still repeated.
TEST_F(ProgressTest, AFenceTellsWhyAPluginHoldsItUp) {
  ASSERT_THAT(services().volumes.PublishVolume(call_, Spec(), UniqueFd()),
              IsOk());
  LeaseRecord lease;
  lease.key.name = "lease";
  lease.allocation = "web";
  lease.kind = LeaseKind::kHeartbeat;
  lease.timeout_ms = 5'000;
  ASSERT_THAT(services().lease_verbs.AcquireLease(call_, lease, nullptr),
              IsOk());
  core_.boot_us += 10'000'000;
  ASSERT_THAT(services().leases.Lapse({Core::kAgent, "lease"}, "late"), IsOk());
  client().FailNext("NodeUnpublishVolume", RpcCode::kDeadlineExceeded,
                    FailWhen::kBefore, CallScript<csi::RpcError>::kAlways);
  ASSERT_THAT(services().fences.StopTasks("web"), IsOk());
  Begin([this] { EXPECT_THAT(services().fences.Finish("web"), IsOk()); });
  const auto told = [this] {
    const auto fence = services().lease_verbs.GetFence(call_, NameOf("web"));
    return fence ? fence->error : fence.error().Message();
  };
  EXPECT_TRUE(Eventually([&] {
    const std::string why = told();
    return why.find("unpublish") != std::string::npos &&
           why.find("DeadlineExceeded") != std::string::npos;
  })) << told();
  const auto held_up = services().lease_verbs.GetFence(call_, NameOf("web"));
  ASSERT_THAT(held_up, IsOk());
  EXPECT_EQ(held_up->state, FenceState::kBegun);
  EXPECT_EQ(held_up->attempts, 0U);
  client().script().Clear();
  EXPECT_TRUE(Eventually([&] {
    const auto fence = services().lease_verbs.GetFence(call_, NameOf("web"));
    return fence && fence->state == FenceState::kDone;
  }));
  EXPECT_EQ(told(), "");
}

TEST_F(ProgressTest, PublishTellsThatThePluginIsAway) {
  client().script().Block("NodeStageVolume");
  client().FailNext("NodeStageVolume", RpcCode::kUnavailable);
  BeginPublish(call_, Spec());
  ASSERT_TRUE(client().script().AwaitBlocked("NodeStageVolume"));
  EXPECT_EQ(TextOf(call_.progress), "stage 0/0 attempt 1");
  client().SetReady("nfs", false);
  ASSERT_TRUE(Eventually([&] { return !core_.plugins->Use("nfs"); }));
  client().script().Unblock("NodeStageVolume");
  EXPECT_TRUE(
      Eventually([&] { return call_.progress.Get().step == Step::kPlugin; }));
  EXPECT_EQ(call_.progress.Get().error, Code::kUnavailable);
  client().SetReady("nfs", true);
}

TEST_F(ProgressTest, WhoWaitsForAVolumeSaysSo) {
  client().script().Block("NodeStageVolume");
  BeginPublish(call_, Spec());
  ASSERT_TRUE(client().script().AwaitBlocked("NodeStageVolume"));
  const CallContext other = Core::By(Core::kAgent);
  BeginPublish(other, Spec("db"));
  EXPECT_TRUE(Becomes(other.progress, "volume 0/0"));
}

TEST_F(ProgressTest, AReleaseCountsWhatIsThere) {
  ASSERT_THAT(services().networks.SetupNetwork(call_, NameOf("web"), {}),
              IsOk());
  ASSERT_THAT(services().volumes.PublishVolume(call_, Spec(), UniqueFd()),
              IsOk());
  ASSERT_THAT(
      services().mounts.BindMounts(
          call_, {Mount("a", exec::SourceKind::kHostVolume, "data"),
                  Mount("b", exec::SourceKind::kPublishedVolume, "data")}),
      IsOk());
  const CallContext release = Core::By(Core::kAgent);
  client().script().Block("NodeUnstageVolume");
  executor().script().Block("DeleteNetwork");
  Begin([this, release] {
    EXPECT_THAT(
        services().allocations.ReleaseAllocation(release, NameOf("web")),
        IsOk());
  });
  ASSERT_TRUE(client().script().AwaitBlocked("NodeUnstageVolume"));
  EXPECT_EQ(TextOf(release.progress), "unstage 2/4 attempt 1");
  client().script().UnblockAll();
  ASSERT_TRUE(executor().script().AwaitBlocked("DeleteNetwork"));
  EXPECT_EQ(TextOf(release.progress), "network 3/4");
  executor().script().UnblockAll();
  EXPECT_TRUE(Becomes(release.progress, "work 4/4"));
}

TEST_F(ProgressTest, ASetOfMountsIsCounted) {
  const CallContext bind = Core::By(Core::kAgent);
  const std::vector<BindMountRequest> specs = {
      Mount("a", exec::SourceKind::kHostVolume, "data"),
      Mount("b", exec::SourceKind::kFilesystem, "homes")};
  executor().script().Block("Attach");
  Begin([this, bind, specs] {
    EXPECT_THAT(services().mounts.BindMounts(bind, specs), IsOk());
  });
  ASSERT_TRUE(executor().script().AwaitBlocked("Attach"));
  EXPECT_EQ(TextOf(bind.progress), "mount 0/2");
  executor().script().UnblockAll();
  EXPECT_TRUE(Becomes(bind.progress, "filesystem 2/2"));
}

TEST_F(ProgressTest, ADeclaredFileSystemIsAStepOfItsOwn) {
  executor().script().Block("Attach");
  Begin([this] {
    EXPECT_THAT(services().mounts.BindMount(
                    call_, Mount("h", exec::SourceKind::kFilesystem, "homes")),
                IsOk());
  });
  ASSERT_TRUE(executor().script().AwaitBlocked("Attach"));
  EXPECT_EQ(TextOf(call_.progress), "filesystem 0/1");
}

TEST_F(ProgressTest, NetworksOfCniTellWhatTheirPluginsAreAt) {
  NetworkRequest spec;
  spec.mode = NetworkMode::kCni;
  spec.network = "net";
  executor().script().Block("RunCni");
  Begin([&] {
    EXPECT_THAT(core_.networks->Setup("web", spec, {}, 0, call_.progress),
                IsOk());
  });
  ASSERT_TRUE(executor().script().AwaitBlocked("RunCni"));
  EXPECT_EQ(TextOf(call_.progress), "cni-add 0/0");
  executor().script().UnblockAll();
  ASSERT_TRUE(Becomes(call_.progress, "network 0/0"));
  ASSERT_TRUE(
      Eventually([&] { return core_.networks->Of("web")->size() == 1; }));
  const Progress teardown;
  executor().script().Block("RunCni");
  Begin([&] {
    EXPECT_THAT(core_.networks->Teardown("web", "eth0", teardown), IsOk());
  });
  ASSERT_TRUE(executor().script().AwaitBlocked("RunCni"));
  EXPECT_EQ(TextOf(teardown), "cni-del 0/0");
  executor().script().UnblockAll();
  EXPECT_TRUE(Becomes(teardown, "network 0/0"));
}

TEST_F(ProgressTest, ReconcileCountsAllocations) {
  WorkerPool pool(4);
  Strands strands(pool);
  EXPECT_THAT(
      services().reconciler.Reconcile(call_, {"s", 1, {"web"}, false}, strands),
      IsOk());
  EXPECT_EQ(TextOf(call_.progress), "release 1/1");
}

TEST_F(ProgressTest, ATreeIsCountedWhileItGoesOn) {
  executor().SetTree(UINT64_MAX);
  const CallContext call = call_;
  Begin([this, call] {
    EXPECT_THAT(services().trees.RemoveTree(call, UniqueFd()),
                IsErr(Code::kAborted));
  });
  EXPECT_TRUE(Eventually([&] { return call.progress.Get().done > 2; }));
  EXPECT_EQ(call.progress.Get().step, Step::kTree);
  EXPECT_EQ(call.progress.Get().total, 0U);
  *call.cancelled = true;
}

// Calls of a plugin's controller report their tries, too.
TEST_F(ProgressTest, AControllersCallTellsItsTries) {
  csi::FakeCsiClient::Plugin plugin = csi::FakeCsiClient::DefaultPlugin("ctl");
  plugin.capabilities.controller_rpcs = {1, 2};
  client().SetPlugin("ctl", plugin);
  client().SetController(
      [](const csi::ControllerCall&) -> csi::RpcResult<std::string> {
        return std::string("{}");
      });
  ASSERT_TRUE(core_.AddPlugin("ctl", "controller"));
  client().FailNext("CreateVolume", RpcCode::kAborted, FailWhen::kBefore, 1);
  client().script().Block("CreateVolume");
  Begin([this] {
    IgnoreBecauseBestEffort(
        services().controllers.CreateVolume(call_, "ctl", {}, UniqueFd()));
  });
  ASSERT_TRUE(client().script().AwaitBlocked("CreateVolume"));
  EXPECT_EQ(TextOf(call_.progress), "controller 0/0 attempt 1");
  client().script().Unblock("CreateVolume");
  EXPECT_TRUE(
      Eventually([&] { return client().script().Count("CreateVolume") == 2; }));
}

}  // namespace
}  // namespace mountd
