// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A running container writes to a block-backed file system when the lease of
// its allocation lapses. No write reaches the file system after the receipt of
// the fence, and another node may have the volume then.
#include <sys/mount.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/root/node/lease_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/naive.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;

// The container is root's, and has the host volume at /data.
class NodeLease : public LeaseFixture {
 protected:
  NodeLease() : LeaseFixture(/*rootless=*/false) {}
  void SetUp() override {
    LeaseFixture::SetUp();
    if (!IsSkipped() && !HasFatalFailure()) {
      Prepare(/*lease_required=*/false);
    }
  }
  void Start() { StartContainer({{path_, "/data"}}); }
};

TEST_F(NodeLease, NoWriteOfAKilledTaskComesAfterTheReceipt) {
  ASSERT_EQ(Bind("data"), "Ok");
  ASSERT_NO_FATAL_FAILURE(Start());
  ASSERT_NO_FATAL_FAILURE(Acquire("kill"));
  EXPECT_TRUE(StartsToWrite());
  EXPECT_EQ(Outcome(client_->GetFence("web")), "NotFound");
  EndHolder();
  const auto fence = AwaitFence();
  ASSERT_TRUE(fence);
  EXPECT_FALSE(Writes());
  EXPECT_TRUE(fence->volumes_detached);
  EXPECT_TRUE(fence->had_tasks);
  EXPECT_EQ(fence->copies, "");
  EXPECT_LE(fence->lapsed_boottime, fence->tasks_stopped_boottime);
  EXPECT_LE(fence->tasks_stopped_boottime, fence->searched_boottime);
  EXPECT_LE(fence->searched_boottime, fence->done_boottime);
  EXPECT_TRUE(IsCgroup("populated 0"));
  EXPECT_FALSE(fs::exists(path_));
  // Nobody has the file system, so another node may have it.
  EXPECT_TRUE(Eventually([] { return ::umount2(kBlock, 0) == 0; }));
}

TEST_F(NodeLease, ATaskThatIsNotStoppedKeepsTheReceiptBack) {
  ASSERT_EQ(Bind("data"), "Ok");
  ASSERT_NO_FATAL_FAILURE(Start());
  ASSERT_NO_FATAL_FAILURE(Acquire("no"));
  EndHolder();
  ASSERT_TRUE(Eventually([&] {
    const auto fence = client_->GetFence("web");
    return fence && !fence->copies.empty();
  }));
  EXPECT_EQ(client_->GetFence("web")->state, "fencing");
  EXPECT_FALSE(client_->GetFence("web")->volumes_detached);
  EXPECT_EQ(Bind("more"), "FailedPrecondition");
  EXPECT_TRUE(StartsToWrite());
  EXPECT_EQ(DeleteContainer(), 0);
  const auto fence = AwaitFence();
  ASSERT_TRUE(fence);
  EXPECT_TRUE(fence->volumes_detached);
  EXPECT_FALSE(Writes());
}

// The task still has its copy of a mount that is gone from the host, and no
// search finds that copy.
TEST_F(NodeLease, ADetachFreesNoClaim) {
  ASSERT_EQ(Bind("data"), "Ok");
  ASSERT_NO_FATAL_FAILURE(Start());
  ASSERT_NO_FATAL_FAILURE(Acquire("no"));
  ASSERT_EQ(Outcome(client_->Unmount("web", "app", "data",
                                     agent::UnmountMode::kDetach)),
            "Ok");
  EndHolder();
  const auto fence = AwaitFence();
  ASSERT_TRUE(fence);
  EXPECT_TRUE(StartsToWrite());
  EXPECT_FALSE(fence->volumes_detached);
  EXPECT_FALSE(client_->GetReceipt("web")->node_detached);
  EXPECT_EQ(DeleteContainer(), 0);
  // The container's process ends after crun.
  EXPECT_TRUE(
      Eventually([&] { return client_->GetFence("web")->volumes_detached; }));
  EXPECT_FALSE(Writes());
  EXPECT_TRUE(client_->GetReceipt("web")->node_detached);
}

TEST_F(NodeLease, AReleaseThatIgnoresTasksFreesNoClaim) {
  ASSERT_EQ(Bind("data"), "Ok");
  ASSERT_NO_FATAL_FAILURE(Start());
  ASSERT_NO_FATAL_FAILURE(Acquire("no"));
  EndHolder();
  ASSERT_TRUE(Eventually([&] {
    const auto fence = client_->GetFence("web");
    return fence && !fence->copies.empty();
  }));
  const auto receipt =
      client_->ReleaseAllocation("web", agent::OnTasks::kIgnore);
  ASSERT_EQ(Outcome(receipt), "Ok");
  EXPECT_FALSE(receipt->node_detached);
  const auto fence = AwaitFence();
  ASSERT_TRUE(fence);
  EXPECT_TRUE(StartsToWrite());
  EXPECT_FALSE(fence->volumes_detached);
  EXPECT_EQ(DeleteContainer(), 0);
  EXPECT_TRUE(
      Eventually([&] { return client_->GetFence("web")->volumes_detached; }));
  EXPECT_FALSE(Writes());
}

TEST_F(NodeLease, AFrozenTaskWritesNothingAndItsMountsAreKept) {
  ASSERT_EQ(Bind("data"), "Ok");
  ASSERT_NO_FATAL_FAILURE(Start());
  ASSERT_NO_FATAL_FAILURE(Acquire("freeze", /*keep=*/true));
  EndHolder();
  const auto fence = AwaitFence();
  ASSERT_TRUE(fence);
  EXPECT_FALSE(Writes());
  EXPECT_FALSE(fence->volumes_detached);
  EXPECT_NE(fence->copies, "");
  EXPECT_EQ(Bind("more"), "FailedPrecondition");
  EXPECT_TRUE(IsCgroup("frozen 1"));
  // The agent comes back, and goes on where it was.
  ASSERT_NO_FATAL_FAILURE(Acquire("freeze", /*keep=*/true));
  std::ofstream(CgroupPath() + "/cgroup.freeze") << "0" << std::flush;
  EXPECT_TRUE(StartsToWrite());
  EXPECT_EQ(Bind("more"), "Ok");
  EXPECT_TRUE(client_->GetFence("web")->lifted);
}

// The holder of a pipe does not see that mountd has ended, so its lease ends
// unless it comes back.
TEST_F(NodeLease, AKilledMountdFencesAfterTheGrace) {
  ASSERT_EQ(Bind("data"), "Ok");
  ASSERT_NO_FATAL_FAILURE(Start());
  ASSERT_NO_FATAL_FAILURE(Acquire("kill"));
  Node::Kill(Node::Processes("mountd"));
  Connect();
  const auto fence = AwaitFence();
  ASSERT_TRUE(fence);
  EXPECT_FALSE(Writes());
  EXPECT_TRUE(fence->volumes_detached);
}

TEST_F(NodeLease, WithoutAFenceTheTaskGoesOnWriting) {
  ASSERT_EQ(Bind("data"), "Ok");
  ASSERT_NO_FATAL_FAILURE(Start());
  EXPECT_NAIVE(NaiveFenceLosesData());
}

}  // namespace
}  // namespace mountd::testing
