// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tests/root/executor_fixture.h"
#include "tests/support/naive.h"

// Mounts on directories that callers pass (propagation/directory_target.h), and
// detached mounts (propagation/detached.h).
namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;
using exec::Request;

constexpr std::uint32_t kCaller = 1234;
constexpr char kDirectory[] = "/run/host/allocs/web/data";

class DirectoryTarget : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    MakeDirectories(kDirectory);
    for (const char* path : {"/run/host/allocs/web", kDirectory}) {
      ASSERT_EQ(::chown(path, kCaller, kCaller), 0);
    }
    RuleConfig rule;
    rule.uids = {kCaller};
    rule.alloc_roots = {"/run/host/allocs"};
    config_.rules.push_back(rule);
    PrepareBase();
    before_ = Inventory::Take();
  }

  Request OnDirectory(Propagation propagation) {
    Request request = AttachRequest("data", propagation);
    request.body.attach.target_kind = exec::TargetKind::kDirectory;
    request.body.attach.caller.uid = kCaller;
    return request;
  }
  Reply AttachTo(const std::string& path, Propagation propagation) {
    fds_.clear();
    fds_.emplace_back(::open(path.c_str(), O_PATH | O_CLOEXEC));
    const Reply reply = Send(OnDirectory(propagation));
    fds_.clear();
    return reply;
  }
  Reply Inspect() {
    return Call(PlanKind::kInspectTarget, [](PlanBody* body) {
      body->target = exec::Target("web", "app", "data");
    });
  }
  std::string UndoAll(std::uint64_t mount_id) {
    std::string errors = ErrorOf(Detach(mount_id));
    errors += ErrorOf(ReleaseHostVolume("data", 0));
    return errors + Difference(before_, Inventory::Take());
  }

  Inventory before_;
};

TEST_F(DirectoryTarget, EveryPropagationIsAsItIsInTheInbox) {
  for (const Propagation mode :
       {Propagation::kPrivate, Propagation::kHostToTask,
        Propagation::kBidirectional}) {
    SCOPED_TRACE(static_cast<int>(mode));
    const Reply reply = AttachTo(kDirectory, mode);
    ASSERT_EQ(ErrorOf(reply), "");
    const std::string target = kDirectory;
    EXPECT_TRUE(Exists(target + "/file"));
    struct statvfs st = {};
    ASSERT_EQ(::statvfs(kDirectory, &st), 0);
    EXPECT_EQ(st.f_flag & (ST_NOSUID | ST_NODEV),
              static_cast<unsigned>(ST_NOSUID | ST_NODEV));
    MountTmpfs("/run/host/data/sub");
    EXPECT_EQ(Exists(target + "/sub/mark"), mode != Propagation::kPrivate);
    Unmount("/run/host/data/sub");
    MountTmpfs(target + "/sub");
    EXPECT_EQ(Exists("/run/host/data/sub/mark"),
              mode == Propagation::kBidirectional);
    Unmount(target + "/sub");
    EXPECT_EQ(Inspect().body.mount.mount_id, reply.body.mount.mount_id);
    EXPECT_EQ(UndoAll(reply.body.mount.mount_id), "");
  }
}

TEST_F(DirectoryTarget, IsFoundWhereverTheCallerHasMovedIt) {
  const Reply reply = AttachTo(kDirectory, Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  ASSERT_EQ(::rename("/run/host/allocs/web", "/run/host/allocs/moved"), 0);
  // The mount that the old path now leads to is not ours.
  MountTmpfs(kDirectory);
  ASSERT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  EXPECT_FALSE(Exists("/run/host/allocs/moved/data/file"));
  EXPECT_TRUE(Exists(std::string(kDirectory) + "/mark"));
  Unmount(kDirectory);
}

TEST_F(DirectoryTarget, IsBusyWhileAnotherMountCoversIt) {
  const Reply reply = AttachTo(kDirectory, Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  MountTmpfs(kDirectory);
  EXPECT_EQ(CodeOf(Detach(reply.body.mount.mount_id)), "Busy");
  EXPECT_TRUE(Exists(std::string(kDirectory) + "/mark"));
  Unmount(kDirectory);
  EXPECT_EQ(CodeOf(Detach(reply.body.mount.mount_id + 1)),
            "FailedPrecondition");
  EXPECT_EQ(UndoAll(reply.body.mount.mount_id), "");
}

TEST_F(DirectoryTarget, OneThatIsGoneIsDetached) {
  const Reply reply = AttachTo(kDirectory, Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(CodeOf(AttachTo(kDirectory, Propagation::kPrivate)),
            "PermissionDenied");  // the directory is a mount now
  Unmount(kDirectory);
  EXPECT_EQ(Inspect().body.mount.mount_id, 0U);
  // The name of the unmounted target is free again.
  const Reply again = AttachTo(kDirectory, Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(again), "");
  EXPECT_EQ(UndoAll(again.body.mount.mount_id), "");
}

TEST_F(DirectoryTarget, OneNameIsOneMount) {
  MakeDirectories("/run/host/allocs/web/more");
  ASSERT_EQ(::chown("/run/host/allocs/web/more", kCaller, kCaller), 0);
  before_ = Inventory::Take();
  const Reply reply = AttachTo(kDirectory, Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  const Inventory once = Inventory::Take();
  EXPECT_EQ(
      CodeOf(AttachTo("/run/host/allocs/web/more", Propagation::kPrivate)),
      "AlreadyExists");
  EXPECT_EQ(CodeOf(Attach("data", Propagation::kPrivate)), "AlreadyExists");
  EXPECT_EQ(Difference(once, Inventory::Take()), "");
  EXPECT_EQ(UndoAll(reply.body.mount.mount_id), "");
}

TEST_F(DirectoryTarget, GoesWithItsAllocation) {
  const Reply reply = AttachTo(kDirectory, Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  for (const PlanKind kind :
       {PlanKind::kRemoveAllocation, PlanKind::kPrepareAllocation}) {
    EXPECT_EQ(ErrorOf(Call(kind,
                           [](PlanBody* body) {
                             body->allocation = {exec::ToWire("web"), 1234};
                           })),
              "");
  }
  EXPECT_EQ(UndoAll(0), "");
}

TEST_F(DirectoryTarget, NothingElseIsTaken) {
  MakeDirectories("/run/host/elsewhere");
  ASSERT_EQ(::chown("/run/host/elsewhere", kCaller, kCaller), 0);
  MakeDirectories("/run/host/allocs/roots");
  WriteFile("/run/host/allocs/file", "");
  ASSERT_EQ(::chown("/run/host/allocs/file", kCaller, kCaller), 0);
  before_ = Inventory::Take();
  EXPECT_EQ(CodeOf(AttachTo("/run/host/elsewhere", Propagation::kPrivate)),
            "PermissionDenied");
  EXPECT_EQ(CodeOf(AttachTo("/run/host/allocs/roots", Propagation::kPrivate)),
            "PermissionDenied");
  EXPECT_EQ(CodeOf(AttachTo("/run/host/allocs/file", Propagation::kPrivate)),
            "InvalidArgument");
  Request swap = OnDirectory(Propagation::kPrivate);
  swap.body.attach.replaces = 1;
  fds_.emplace_back(::open(kDirectory, O_PATH | O_CLOEXEC));
  EXPECT_EQ(CodeOf(Send(swap)), "InvalidArgument");
  fds_.clear();
  EXPECT_EQ(CodeOf(Send(OnDirectory(Propagation::kPrivate))),
            "InvalidArgument");
  EXPECT_EQ(Difference(before_, Inventory::Take()), "");
}

// The owner moves the directory between the check and the mount.
TEST_F(DirectoryTarget, ADirectoryThatIsMovedAwayMeanwhileGetsNoMount) {
  MakeDirectories("/run/host/elsewhere");
  ASSERT_EQ(::chown("/run/host/elsewhere", kCaller, kCaller), 0);
  for (const bool old_kernel : {false, true}) {
    if (old_kernel) {
      kernel_.HideUniqueMountIds();
      dispatcher_.emplace(kernel_, config_);
    }
    int attached = 0;
    bool naive = false;
    kernel_.Before([&](const std::string& call) {
      attached += call == "AttachTree" ? 1 : 0;
      // The first attach is the anchor's.
      if (call == "AttachTree" && attached == 2) {
        ASSERT_EQ(::rename("/run/host/allocs/web", "/run/host/elsewhere/web"),
                  0);
      }
      naive = naive || Exists("/run/host/elsewhere/web/data/file");
    });
    EXPECT_EQ(CodeOf(AttachTo(kDirectory, Propagation::kPrivate)),
              "PermissionDenied");
    kernel_.Before(nullptr);
    EXPECT_NAIVE(naive);
    EXPECT_FALSE(Exists("/run/host/elsewhere/web/data/file"));
    ASSERT_EQ(::rename("/run/host/elsewhere/web", "/run/host/allocs/web"), 0);
    EXPECT_EQ(Inspect().body.mount.mount_id, 0U);
    EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
  }
  ASSERT_EQ(::rmdir("/run/host/elsewhere"), 0);
  EXPECT_EQ(Difference(before_, Inventory::Take()), "");
}

TEST_F(DirectoryTarget, AFailureOrAKillAnywhereLeavesNothing) {
  for (const int error : exec::kEndOrErrorsOfAnyCall) {
    bool reached = true;
    for (std::size_t k = 1; reached; ++k) {
      SCOPED_TRACE("call " + std::to_string(k) + ", errno " +
                   std::to_string(error));
      kernel_.FailOrDieAt(k, error);
      AttachTo(kDirectory, Propagation::kHostToTask);
      reached = kernel_.calls().size() >= k;
      kernel_.FailAt(0, 0);
      ASSERT_EQ(ErrorOf(Detach(Inspect().body.mount.mount_id)), "");
      ASSERT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
      ASSERT_EQ(Difference(before_, Inventory::Take()), "");
    }
  }
}

class Detached : public DirectoryTarget {
 protected:
  Reply Open(const std::string& volume, Propagation propagation) {
    return Call(PlanKind::kOpenTree, [&](PlanBody* body) {
      body->open_tree = exec::OpenTreePlan{};
      body->open_tree.allocation = exec::ToWire("web");
      body->open_tree.source.host_volume = exec::ToWire(volume);
      body->open_tree.propagation = propagation;
    });
  }
};

TEST_F(Detached, TheFdIsTheSourceAndNothingElseIsLeft) {
  const Reply reply = Open("data", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  ASSERT_TRUE(last_fd_.valid());
  struct stat there = {};
  struct stat source = {};
  ASSERT_EQ(::fstat(last_fd_.get(), &there), 0);
  ASSERT_EQ(::stat("/run/host/data", &source), 0);
  EXPECT_EQ(there.st_ino, source.st_ino);
  EXPECT_EQ(there.st_dev, source.st_dev);
  struct statvfs st = {};
  ASSERT_EQ(::fstatvfs(last_fd_.get(), &st), 0);
  EXPECT_EQ(st.f_flag & (ST_NOSUID | ST_NODEV),
            static_cast<unsigned>(ST_NOSUID | ST_NODEV));
  last_fd_.reset();
  EXPECT_EQ(Difference(before_, Inventory::Take()), "");
}

TEST_F(Detached, OnlyOfWhatMayBeWritten) {
  EXPECT_EQ(CodeOf(Open("ro", Propagation::kPrivate)), "FailedPrecondition");
  ASSERT_EQ(
      ::mount("/run/host/data", "/run/host/data", nullptr, MS_BIND, nullptr),
      0);
  ASSERT_EQ(::mount(nullptr, "/run/host/data", nullptr,
                    MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr),
            0);
  EXPECT_EQ(CodeOf(Open("data", Propagation::kPrivate)), "FailedPrecondition");
  Unmount("/run/host/data");
  EXPECT_FALSE(last_fd_.valid());
  EXPECT_EQ(Difference(before_, Inventory::Take()), "");
}

TEST_F(Detached, NeverBidirectionalAndASlaveOnlyOfAMountThatStays) {
  EXPECT_EQ(CodeOf(Open("data", Propagation::kBidirectional)),
            "InvalidArgument");
  EXPECT_EQ(CodeOf(Open("data", Propagation::kHostToTask)),
            "FailedPrecondition");
  EXPECT_EQ(Difference(before_, Inventory::Take()), "");
}

}  // namespace
}  // namespace mountd::testing
