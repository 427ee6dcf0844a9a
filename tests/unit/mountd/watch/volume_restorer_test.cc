// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/watch/volume_restorer.h"

#include <future>
#include <memory>
#include <optional>

#include "mountd/service/teardowns.h"
#include "tests/support/fakes/failing_store.h"
#include "tests/support/fakes/manual_loop.h"
#include "tests/unit/csi-node/node/volumes_fixture.h"

namespace mountd::csi {
namespace {

// A volume that a task has mounted.
class VolumeRestorerTest : public VolumesTest {
 protected:
  void SetUp() override {
    VolumesTest::SetUp();
    ASSERT_EQ(MessageOf(core_.services->allocations.PrepareAllocation(
                  call_, NameOf("web"), "")),
              "Ok");
    PublishSpec volume = Spec();
    volume.capability.mount_flags.clear();
    ASSERT_EQ(MessageOf(Publish(volume)), "Ok");
    BindMountRequest mount;
    mount.allocation = "web";
    mount.task = "task";
    mount.name = "data";
    mount.wish.source_kind = exec::SourceKind::kPublishedVolume;
    mount.wish.source = "alias";
    ASSERT_EQ(MessageOf(core_.services->mounts.BindMount(call_, mount)), "Ok");
    first_mount_ = MountId();
    restorer_.emplace(loop_, *strands_, *core_.volumes,
                      core_.services->volumes);
  }
  ~VolumeRestorerTest() override {
    strands_.reset();  // first, because their jobs use the restorer
  }

  void Die() {
    executor().SetHealth("nfs/publish/web/" + kKey.str(),
                         exec::MountHealth::kDead);
  }
  std::uint64_t MountId() { return executor().MountIdOf("web/task/data"); }
  std::size_t Attached() { return executor().script().Count("Attach web"); }
  bool IsPublished() {
    const auto publication = Publication();
    return publication && publication->state == PublicationState::kPublished;
  }
  // Waits until all work that was begun is done.
  void AwaitWork() {
    for (const std::string& strand :
         {std::string("volumes of plugin nfs"), AllocationStrand("web")}) {
      auto done = std::make_shared<std::promise<void>>();
      strands_->Submit(strand, [done] { done->set_value(); });
      done->get_future().wait();
    }
  }
  bool UntilTimer() {
    return loop_.RunUntil([&] { return loop_.timer_count() == 1; });
  }

  const CallContext call_ = Core::By(Core::kAgent);
  std::uint64_t first_mount_ = 0;
  ManualLoop loop_;
  std::optional<VolumeRestorer> restorer_;  // outlives the pool's last jobs
  WorkerPool pool_{2};
  std::unique_ptr<Strands> strands_ = std::make_unique<Strands>(pool_);
};

TEST_F(VolumeRestorerTest, WhatDiedIsPublishedAnewAndMountsOfItAreMended) {
  Die();
  restorer_->Look("nfs");
  AwaitWork();
  EXPECT_TRUE(IsPublished());
  EXPECT_NE(MountId(), first_mount_);
  EXPECT_NE(MountId(), 0U);
}

// Each mount of a plugin reports its end.
TEST_F(VolumeRestorerTest, OneLookIsEnoughForAllThatIsToldBeforeIt) {
  const auto looks = [&] { return executor().script().Count("ProbeVolume"); };
  std::promise<void> go;
  strands_->Submit("volumes of plugin nfs", [&] { go.get_future().wait(); });
  for (int i = 0; i < 3; ++i) {
    restorer_->Look("nfs");
  }
  go.set_value();
  ASSERT_TRUE(executor().script().AwaitCalls("ProbeVolume", 1));
  restorer_->Look("nfs");
  AwaitWork();
  EXPECT_EQ(looks(), 2U);
}

TEST_F(VolumeRestorerTest, WhatCouldNotBePublishedAnewIsTriedAgain) {
  Die();
  client().FailNext("NodeStageVolume", RpcCode::kInternal);
  restorer_->Look("nfs");
  ASSERT_TRUE(UntilTimer());
  EXPECT_FALSE(IsPublished());
  loop_.FireTimers();
  ASSERT_TRUE(loop_.RunUntil([&] { return MountId() != first_mount_; }));
  EXPECT_TRUE(IsPublished());
  AwaitWork();
  loop_.RunUntil([&] { return loop_.timer_count() == 0; });
  EXPECT_EQ(loop_.timer_count(), 0U);
}

TEST_F(VolumeRestorerTest, AStoreThatCannotBeReadIsAskedAgain) {
  Die();
  std::optional<LockedTable> locked(std::in_place, core_.state->database(),
                                    "volumes");
  restorer_->Look("nfs");
  ASSERT_TRUE(UntilTimer());
  locked.reset();
  loop_.FireTimers();
  EXPECT_TRUE(loop_.RunUntil([&] { return MountId() != first_mount_; }));
}

TEST_F(VolumeRestorerTest, AMountThatCouldNotBeMendedIsTriedAgain) {
  Die();
  executor().FailNext("Attach", Code::kInternal);
  restorer_->Look("nfs");
  ASSERT_TRUE(UntilTimer());
  EXPECT_TRUE(IsPublished());
  EXPECT_EQ(MountId(), first_mount_);
  loop_.FireTimers();
  EXPECT_TRUE(loop_.RunUntil([&] { return MountId() != first_mount_; }));
  EXPECT_EQ(Calls("NodePublishVolume"), 2U);
}

TEST_F(VolumeRestorerTest, WhatIsUnpublishedMeanwhileIsTriedNoMore) {
  Die();
  executor().FailNext("Attach", Code::kInternal);
  restorer_->Look("nfs");
  ASSERT_TRUE(UntilTimer());
  ASSERT_EQ(MessageOf(core_.services->allocations.ReleaseAllocation(
                call_, NameOf("web"))),
            "Ok");
  const std::size_t attached = Attached();
  loop_.FireTimers();
  AwaitWork();
  EXPECT_TRUE(loop_.RunUntil([&] { return loop_.timer_count() == 0; }));
  EXPECT_EQ(Attached(), attached);
}

}  // namespace
}  // namespace mountd::csi
