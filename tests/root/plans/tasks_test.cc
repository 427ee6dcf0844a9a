// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "tests/root/cgroup_fixture.h"

namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;
using exec::TaskMount;

constexpr char kTaskRoot[] = "/run/task";

// Makes a user namespace in which root is root.
bool MakeUserNamespace() {
  if (::unshare(CLONE_NEWUSER) != 0) {
    return false;
  }
  WriteFile("/proc/self/setgroups", "deny");
  WriteFile("/proc/self/uid_map", "0 0 1");
  WriteFile("/proc/self/gid_map", "0 0 1");
  return true;
}

// Does what a runtime does for a task, in the calling process: a mount
// namespace whose mounts have the propagation `rootfs`, a root file system, and
// the target mounted in it with `mode` (0: as it is).
bool BecomeTask(unsigned long rootfs, unsigned long mode,
                unsigned long flags = 0) {
  const std::string data = std::string(kTaskRoot) + "/data";
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | rootfs, nullptr) == 0 &&
         ::mount("task", kTaskRoot, "tmpfs", 0, nullptr) == 0 &&
         ::mkdir(data.c_str(), 0755) == 0 &&
         ::mount(kTarget, data.c_str(), nullptr, MS_BIND | MS_REC, nullptr) ==
             0 &&
         (mode == 0 || ::mount(nullptr, data.c_str(), nullptr, MS_REC | mode,
                               nullptr) == 0) &&
         (flags == 0 || ::mount(nullptr, data.c_str(), nullptr,
                                MS_REMOUNT | MS_BIND | flags, nullptr) == 0) &&
         ::chroot(kTaskRoot) == 0 && ::chdir("/") == 0;
}

class Tasks : public CgroupFixture {
 protected:
  void SetUp() override {
    CgroupFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    cgroup_ = MakeCgroup("web");
    MakeDirectories(kTaskRoot);
    PrepareBase();
  }
  exec::MountState Mounted(Propagation propagation) {
    const Reply reply = Attach("data", propagation);
    EXPECT_EQ(ErrorOf(reply), "");
    return reply.body.mount;
  }
  Reply Verify(const Child& task, std::vector<std::uint64_t> ids) {
    fds_.clear();
    fds_.emplace_back(::dup(task.pidfd.get()));
    const Reply reply = Call(PlanKind::kVerifyTask, [&](PlanBody* body) {
      body->verify_task = exec::VerifyTaskPlan{};
      body->verify_task.cgroup = cgroup_;
      body->verify_task.count = static_cast<std::uint32_t>(ids.size());
      std::copy(ids.begin(), ids.end(), body->verify_task.mount_ids.begin());
    });
    fds_.clear();
    return reply;
  }
  TaskMount VerifyOne(const Child& task, std::uint64_t id) {
    const Reply reply = Verify(task, {id});
    EXPECT_EQ(ErrorOf(reply), "");
    EXPECT_EQ(reply.body.task.count, 1U);
    return reply.body.task.mounts[0];
  }

  std::uint64_t cgroup_ = 0;
};

TEST_F(Tasks, ThatFollowTheHostAreSeenToFollow) {
  const exec::MountState ours = Mounted(Propagation::kHostToTask);
  const Child& task =
      Spawn("web", [] { return BecomeTask(MS_SLAVE, MS_SLAVE); });
  const TaskMount seen = VerifyOne(task, ours.mount_id);
  EXPECT_EQ(seen.exists_on_host, 1U);
  EXPECT_EQ(seen.found, 1U);
  EXPECT_EQ(seen.covered, 0U);
  EXPECT_EQ(seen.master, ours.master);
  EXPECT_EQ(seen.peer_group, 0U);
  EXPECT_EQ(seen.attributes & (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV),
            static_cast<std::uint64_t>(MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV));
}

TEST_F(Tasks, WhoseRuntimeMadeAllPrivateAreSeenToFollowNothing) {
  const exec::MountState ours = Mounted(Propagation::kHostToTask);
  const Child& task =
      Spawn("web", [] { return BecomeTask(MS_PRIVATE, MS_PRIVATE); });
  const TaskMount seen = VerifyOne(task, ours.mount_id);
  EXPECT_EQ(seen.found, 1U);
  EXPECT_EQ(seen.master, 0U);
  EXPECT_EQ(seen.peer_group, 0U);
}

TEST_F(Tasks, AreSeenToBePeersOrNot) {
  const exec::MountState ours = Mounted(Propagation::kBidirectional);
  const Child& peer =
      Spawn("web", [] { return BecomeTask(MS_SHARED, MS_SHARED); });
  EXPECT_EQ(VerifyOne(peer, ours.mount_id).peer_group, ours.peer_group);
  const Child& slave =
      Spawn("web", [] { return BecomeTask(MS_SLAVE, MS_SHARED); });
  const TaskMount seen = VerifyOne(slave, ours.mount_id);
  EXPECT_NE(seen.peer_group, ours.peer_group);
  EXPECT_EQ(seen.master, ours.peer_group);
}

TEST_F(Tasks, WithTheirOwnUserNamespaceCanOnlyFollow) {
  const exec::MountState ours = Mounted(Propagation::kBidirectional);
  const Child& task = Spawn("web", [] {
    return MakeUserNamespace() && BecomeTask(MS_SHARED, MS_SHARED);
  });
  const Reply reply = Verify(task, {ours.mount_id});
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(reply.body.task.has_own_user_namespace, 1U);
  EXPECT_NE(reply.body.task.mounts[0].peer_group, ours.peer_group);
  EXPECT_EQ(reply.body.task.mounts[0].master, ours.peer_group);
}

TEST_F(Tasks, AreSeenWithTheAttributesTheyHave) {
  const exec::MountState ours = Mounted(Propagation::kPrivate);
  const Child& weak =
      Spawn("web", [] { return BecomeTask(MS_PRIVATE, 0, MS_NOEXEC); });
  const std::uint64_t attributes = VerifyOne(weak, ours.mount_id).attributes;
  EXPECT_EQ(attributes & MOUNT_ATTR_NOSUID, 0U);
  EXPECT_NE(attributes & MOUNT_ATTR_NOEXEC, 0U);
}

TEST_F(Tasks, WithoutTheMountOrWithAnotherOverIt) {
  const exec::MountState ours = Mounted(Propagation::kPrivate);
  const Child& without = Spawn("web", [] {
    return BecomeTask(MS_PRIVATE, 0) && ::umount2("/data", 0) == 0;
  });
  EXPECT_EQ(VerifyOne(without, ours.mount_id).found, 0U);
  const Child& covered = Spawn("web", [] {
    return BecomeTask(MS_PRIVATE, 0) &&
           ::mount("over", "/data", "tmpfs", 0, nullptr) == 0;
  });
  EXPECT_EQ(VerifyOne(covered, ours.mount_id).covered, 1U);
}

// A second mount of the same directory, with less in common, is not taken for
// the copy.
TEST_F(Tasks, AreJudgedByTheMountThatHasMostInCommon) {
  const exec::MountState ours = Mounted(Propagation::kHostToTask);
  const Child& task = Spawn("web", [] {
    return BecomeTask(MS_SLAVE, MS_SLAVE) && ::mkdir("/other", 0755) == 0 &&
           ::mount("/data", "/other", nullptr, MS_BIND, nullptr) == 0 &&
           ::mount(nullptr, "/other", nullptr, MS_PRIVATE, nullptr) == 0;
  });
  EXPECT_EQ(VerifyOne(task, ours.mount_id).master, ours.master);
}

TEST_F(Tasks, WithSeveralOfOneVolumeAreJudgedByEach) {
  const exec::MountState both = Mounted(Propagation::kBidirectional);
  const Reply reply = Attach("data", Propagation::kPrivate, "own");
  ASSERT_EQ(ErrorOf(reply), "");
  const Child& task = Spawn("web", [] {
    return BecomeTask(MS_SHARED, MS_SHARED) && ::mkdir("/own", 0755) == 0 &&
           ::mount("/data", "/own", nullptr, MS_BIND, nullptr) == 0 &&
           ::mount(nullptr, "/own", nullptr, MS_PRIVATE, nullptr) == 0;
  });
  const Reply seen = Verify(task, {both.mount_id, reply.body.mount.mount_id});
  ASSERT_EQ(ErrorOf(seen), "");
  EXPECT_EQ(seen.body.task.mounts[0].peer_group, both.peer_group);
  EXPECT_EQ(seen.body.task.mounts[1].peer_group, 0U);
}

// The host's own mounts, which the task still sees, are not its runtime's work.
TEST_F(Tasks, OnTheHostsRootAreJudgedByWhatWasMountedForThem) {
  const exec::MountState ours = Mounted(Propagation::kHostToTask);
  const Child& task = Spawn("web", [] {
    return ::unshare(CLONE_NEWNS) == 0 &&
           ::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0 &&
           ::mount(kTarget, kTaskRoot, nullptr, MS_BIND, nullptr) == 0 &&
           ::mount(nullptr, kTaskRoot, nullptr, MS_PRIVATE, nullptr) == 0;
  });
  EXPECT_EQ(VerifyOne(task, ours.mount_id).master, 0U);
}

TEST_F(Tasks, AreToldWhatIsGoneFromTheHost) {
  const exec::MountState ours = Mounted(Propagation::kPrivate);
  const Child& task = Spawn("web", [] { return BecomeTask(MS_PRIVATE, 0); });
  const Reply reply = Verify(task, {ours.mount_id + 1000, ours.mount_id});
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(reply.body.task.mounts[0].exists_on_host, 0U);
  EXPECT_EQ(reply.body.task.mounts[1].exists_on_host, 1U);
}

TEST_F(Tasks, OfOtherCgroupsAreNotLookedAt) {
  MakeCgroup("web/task");
  MakeCgroup("webs");
  const auto nothing = [] { return true; };
  EXPECT_EQ(ErrorOf(Verify(Spawn("web/task", nothing), {})), "");
  EXPECT_EQ(CodeOf(Verify(Spawn("webs", nothing), {})), "FailedPrecondition");
  EXPECT_EQ(CodeOf(Verify(SpawnOutside(nothing), {})), "PermissionDenied");
  Child& ended = Spawn("web", nothing);
  End(ended);
  EXPECT_EQ(CodeOf(Verify(ended, {})), "FailedPrecondition");
}

TEST_F(Tasks, EachCallThatFailsIsAnError) {
  const exec::MountState ours = Mounted(Propagation::kPrivate);
  const Child& task = Spawn("web", [] { return BecomeTask(MS_PRIVATE, 0); });
  kernel_.FailAt(0, 0);
  ASSERT_EQ(ErrorOf(Verify(task, {ours.mount_id})), "");
  const std::vector<std::string> calls = kernel_.calls();
  const Inventory before = Inventory::Take();
  for (const int error : exec::kErrorsOfAnyCall) {
    for (std::size_t k = 1; k <= calls.size(); ++k) {
      kernel_.FailAt(k, error);
      EXPECT_NE(CodeOf(Verify(task, {ours.mount_id})), "")
          << calls[k - 1] << ", errno " << error;
      kernel_.FailAt(0, 0);
      EXPECT_EQ(Difference(before, Inventory::Take()), "");
    }
  }
  ExpectFailed({"HasEnded", "OpenKernfs", "ReadFile", "StatLinked"});
}

}  // namespace
}  // namespace mountd::testing
