// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "tests/root/executor_fixture.h"
#include "tests/support/naive.h"
#include "tests/support/servers/fuse_server.h"

// Each unmount mode acts on a mount that is in use (exec::UnmountMode).
namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;
using exec::UnmountMode;

constexpr char kFuse[] = "/run/host/fuse";

class UnmountModes : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    MakeDirectories(kFuse);
    config_.host_volumes["fuse"] = config_.host_volumes["data"];
    config_.host_volumes["fuse"].path = kFuse;
    PrepareBase();
    before_ = Inventory::Take();
  }
  Reply DetachBy(UnmountMode mode, std::uint64_t mount_id) {
    return Call(PlanKind::kDetach, [&](PlanBody* body) {
      body->detach = {exec::Target("web", "app", "data"), mount_id, mode};
    });
  }

  Inventory before_;
};

class HungServer : public UnmountModes {
 protected:
  // Mounts a file system whose server does not answer, and starts a process
  // that waits for it.
  void SetUp() override {
    UnmountModes::SetUp();
    if (IsSkipped()) {
      return;
    }
    server_.emplace(kFuse);
    ASSERT_TRUE(server_->valid());
    const Reply reply = Attach("fuse", Propagation::kPrivate);
    ASSERT_EQ(ErrorOf(reply), "");
    mount_id_ = reply.body.mount.mount_id;
    const std::string file = std::string(kTarget) + "/file";
    ASSERT_EQ(::access(file.c_str(), F_OK), 0);
    server_->Hang();
    waiting_ = StatInChild(file);
    ASSERT_TRUE(AwaitWaiting(waiting_));
  }
  // Expects that only the file system itself is left.
  void ExpectGone() {
    EXPECT_FALSE(Exists(kTarget));
    ASSERT_EQ(::umount2(kFuse, MNT_DETACH), 0);
    server_->Die();
    EXPECT_EQ(DifferenceWithin(before_, 2000), "");
  }

  // Repeats the detach while it is Busy, because the process that waited may
  // need a moment to leave.
  Reply DetachWhenLeft(UnmountMode mode) {
    Reply reply = DetachBy(mode, mount_id_);
    for (int i = 0; i < 2000 && CodeOf(reply) == "Busy"; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      reply = DetachBy(mode, mount_id_);
    }
    return reply;
  }

  std::optional<FuseServer> server_;
  std::uint64_t mount_id_ = 0;
  pid_t waiting_ = -1;
};

TEST_F(UnmountModes, DetachTakesAMountThatIsUsed) {
  const Reply reply = Attach("data", Propagation::kBidirectional);
  ASSERT_EQ(ErrorOf(reply), "");
  MountTmpfs("/run/host/data/sub");
  UniqueFd user(
      ::open((std::string(kTarget) + "/file").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(user.valid());
  EXPECT_EQ(CodeOf(DetachBy(UnmountMode::kPlain, reply.body.mount.mount_id)),
            "Busy");
  EXPECT_EQ(ErrorOf(DetachBy(UnmountMode::kDetach, reply.body.mount.mount_id)),
            "");
  EXPECT_FALSE(Exists(kTarget));
  // A mount in the source belongs to the source, and its user goes on.
  EXPECT_TRUE(Exists("/run/host/data/sub/mark"));
  char byte = 0;
  EXPECT_EQ(::read(user.get(), &byte, 1), 1);
  user.reset();
  Unmount("/run/host/data/sub");
  EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
  EXPECT_EQ(DifferenceWithin(before_, 2000), "");
}

// The mount leaves its peer group while mountd tries to unmount it.
TEST_F(UnmountModes, ABusyBidirectionalMountIsInItsGroupAgain) {
  const std::string source = "/run/host/data";
  const std::string target = kTarget;
  for (const char* name : {"/second", "/third"}) {
    MakeDirectories(source + name);
  }
  before_ = Inventory::Take();
  const Reply reply = Attach("data", Propagation::kBidirectional);
  ASSERT_EQ(ErrorOf(reply), "");
  const std::uint64_t id = reply.body.mount.mount_id;
  UniqueFd user(::open((target + "/file").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(user.valid());
  for (const auto& [name, mode] : {std::pair("/sub", UnmountMode::kPlain),
                                   std::pair("/second", UnmountMode::kForce)}) {
    MountTmpfs(source + name);
    EXPECT_TRUE(Exists(target + name + "/mark"));
    EXPECT_EQ(CodeOf(DetachBy(mode, id)), "Busy");
    const Reply now = Call(PlanKind::kInspectTarget, [](PlanBody* body) {
      body->target = exec::Target("web", "app", "data");
    });
    EXPECT_EQ(now.body.mount.mount_id, id);
    EXPECT_EQ(now.body.mount.peer_group, reply.body.mount.peer_group);
  }
  MountTmpfs(target + "/third");
  EXPECT_TRUE(Exists(source + "/third/mark"));
  user.reset();
  EXPECT_EQ(ErrorOf(DetachBy(UnmountMode::kPlain, id)), "");
  for (const char* name : {"/sub", "/second", "/third"}) {
    EXPECT_TRUE(Exists(source + name + "/mark"));
    Unmount(source + name);
  }
  EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
  EXPECT_EQ(DifferenceWithin(before_, 2000), "");
}

TEST_F(HungServer, AbortCutsItsConnection) {
  // A naive plain unmount fails.
  EXPECT_NAIVE(CodeOf(DetachBy(UnmountMode::kPlain, mount_id_)) == "Busy");
  EXPECT_EQ(ErrorOf(DetachWhenLeft(UnmountMode::kAbort)), "");
  EXPECT_EQ(ExitOf(waiting_), ECONNABORTED);
  ExpectGone();
}

// Another server's file system comes to the same place while the executor looks
// at the one to abort.
TEST_F(HungServer, AbortCutsNoServerThatCoversIt) {
  constexpr char kOtherMount[] = "/run/host/other";
  MakeDirectories(kOtherMount);
  FuseServer other(kOtherMount);
  ASSERT_TRUE(other.valid());
  // An abort of a tmpfs ends with the look at it, so it says after how many
  // calls the executor has looked.
  const Reply data = Attach("data", Propagation::kPrivate, "data2");
  ASSERT_EQ(ErrorOf(data), "");
  kernel_.FailAt(0, 0);
  ASSERT_EQ(CodeOf(Call(PlanKind::kDetach,
                        [&](PlanBody* body) {
                          body->detach = {exec::Target("web", "app", "data2"),
                                          data.body.mount.mount_id,
                                          UnmountMode::kAbort};
                        })),
            "NotSupported");
  const std::size_t looked = kernel_.calls().size();
  ASSERT_EQ(ErrorOf(Detach(data.body.mount.mount_id, "data2")), "");
  ASSERT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
  kernel_.FailAt(0, 0);
  bool is_covered = false;
  kernel_.Before([&](const std::string&) {
    if (!is_covered && kernel_.calls().size() > looked) {
      is_covered =
          ::mount(kOtherMount, kTarget, nullptr, MS_BIND, nullptr) == 0;
      struct stat by_name {};
      struct stat of_other {};
      // A naive look by name finds the other server's file system.
      EXPECT_NAIVE(::stat(kTarget, &by_name) == 0 &&
                   ::stat(kOtherMount, &of_other) == 0 &&
                   by_name.st_dev == of_other.st_dev);
    }
  });
  // The unmount takes the mount on top, so the executor may find the one to
  // abort only at its second look.
  EXPECT_EQ(ErrorOf(DetachWhenLeft(UnmountMode::kAbort)), "");
  kernel_.Before({});
  EXPECT_TRUE(is_covered);
  EXPECT_EQ(ExitOf(waiting_), ECONNABORTED);
  EXPECT_EQ(ExitOf(StatInChild(std::string(kOtherMount) + "/file")), 0);
  ASSERT_EQ(::umount2(kOtherMount, MNT_DETACH), 0);
  other.Die();
  ASSERT_EQ(::rmdir(kOtherMount), 0);
  ExpectGone();
}

TEST_F(HungServer, ForceGivesUpWhatWaitsForIt) {
  EXPECT_NAIVE(CodeOf(DetachBy(UnmountMode::kPlain, mount_id_)) == "Busy");
  EXPECT_EQ(ErrorOf(DetachWhenLeft(UnmountMode::kForce)), "");
  EXPECT_NE(ExitOf(waiting_), 0);
  ExpectGone();
}

TEST_F(UnmountModes, AbortIsForFuseAlone) {
  const Reply reply = Attach("data", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  const Inventory with = Inventory::Take();
  const Reply aborted =
      DetachBy(UnmountMode::kAbort, reply.body.mount.mount_id);
  EXPECT_EQ(CodeOf(aborted), "NotSupported");
  EXPECT_NE(ErrorOf(aborted).find("only FUSE can be aborted"),
            std::string::npos);
  EXPECT_EQ(Difference(with, Inventory::Take()), "");
  EXPECT_EQ(
      CodeOf(DetachBy(static_cast<UnmountMode>(4), reply.body.mount.mount_id)),
      "InvalidArgument");
  EXPECT_EQ(ErrorOf(DetachBy(UnmountMode::kForce, reply.body.mount.mount_id)),
            "");
  EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
  EXPECT_EQ(Difference(before_, Inventory::Take()), "");
}

TEST_F(UnmountModes, NoModeTakesAMountThatIsNotTheOneNamed) {
  const Reply reply = Attach("data", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  MountTmpfs(kTarget);
  const Inventory with = Inventory::Take();
  for (const UnmountMode mode : {UnmountMode::kPlain, UnmountMode::kDetach,
                                 UnmountMode::kForce, UnmountMode::kAbort}) {
    EXPECT_EQ(CodeOf(DetachBy(mode, reply.body.mount.mount_id)),
              "FailedPrecondition");
  }
  EXPECT_EQ(Difference(with, Inventory::Take()), "");
  Unmount(kTarget);
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
}

}  // namespace
}  // namespace mountd::testing
