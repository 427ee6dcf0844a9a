// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <climits>
#include <string>

#include "propagation/ground/mount_inspector.h"
#include "tests/root/executor_fixture.h"
#include "tests/support/naive.h"

// Mounts on directories that callers pass (propagation/directory_target.h), and
// detached mounts (propagation/open_tree.h).
namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;
using exec::Request;

constexpr std::uint32_t kTargetCaller = 1234;
constexpr char kTargetDirectory[] = "/run/host/allocs/web/data";

class DirectoryTarget : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    MakeDirectories(kTargetDirectory);
    for (const char* path : {"/run/host/allocs/web", kTargetDirectory}) {
      ASSERT_EQ(::chown(path, kTargetCaller, kTargetCaller), 0);
    }
    RuleConfig rule;
    rule.uids = {kTargetCaller};
    rule.alloc_roots = {"/run/host/allocs"};
    config_.rules.push_back(rule);
    PrepareBase();
    before_ = Inventory::Take();
  }

  Request OnDirectory(Propagation propagation) {
    Request request = AttachRequest("data", propagation);
    request.body.attach.target_kind = exec::TargetKind::kDirectory;
    request.body.attach.caller.uid = kTargetCaller;
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
    const Reply reply = AttachTo(kTargetDirectory, mode);
    ASSERT_EQ(ErrorOf(reply), "");
    const std::string target = kTargetDirectory;
    EXPECT_TRUE(Exists(target + "/file"));
    struct statvfs st = {};
    ASSERT_EQ(::statvfs(kTargetDirectory, &st), 0);
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
  const Reply reply = AttachTo(kTargetDirectory, Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  ASSERT_EQ(::rename("/run/host/allocs/web", "/run/host/allocs/moved"), 0);
  // The mount that the old path now leads to is not ours.
  MountTmpfs(kTargetDirectory);
  ASSERT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  EXPECT_FALSE(Exists("/run/host/allocs/moved/data/file"));
  EXPECT_TRUE(Exists(std::string(kTargetDirectory) + "/mark"));
  Unmount(kTargetDirectory);
}

TEST_F(DirectoryTarget, IsBusyWhileAnotherMountCoversIt) {
  const Reply reply = AttachTo(kTargetDirectory, Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  MountTmpfs(kTargetDirectory);
  EXPECT_EQ(CodeOf(Detach(reply.body.mount.mount_id)), "Busy");
  EXPECT_TRUE(Exists(std::string(kTargetDirectory) + "/mark"));
  Unmount(kTargetDirectory);
  EXPECT_EQ(CodeOf(Detach(reply.body.mount.mount_id + 1)),
            "FailedPrecondition");
  EXPECT_EQ(UndoAll(reply.body.mount.mount_id), "");
}

TEST_F(DirectoryTarget, OneThatIsGoneIsDetached) {
  const Reply reply = AttachTo(kTargetDirectory, Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(CodeOf(AttachTo(kTargetDirectory, Propagation::kPrivate)),
            "PermissionDenied");  // the directory is a mount now
  Unmount(kTargetDirectory);
  EXPECT_EQ(Inspect().body.mount.mount_id, 0U);
  // The name of the unmounted target is free again.
  const Reply again = AttachTo(kTargetDirectory, Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(again), "");
  EXPECT_EQ(UndoAll(again.body.mount.mount_id), "");
}

TEST_F(DirectoryTarget, OneNameIsOneMount) {
  MakeDirectories("/run/host/allocs/web/more");
  ASSERT_EQ(::chown("/run/host/allocs/web/more", kTargetCaller, kTargetCaller),
            0);
  before_ = Inventory::Take();
  const Reply reply = AttachTo(kTargetDirectory, Propagation::kPrivate);
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
  const Reply reply = AttachTo(kTargetDirectory, Propagation::kPrivate);
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
  ASSERT_EQ(::chown("/run/host/elsewhere", kTargetCaller, kTargetCaller), 0);
  MakeDirectories("/run/host/allocs/roots");
  WriteFile("/run/host/allocs/file", "");
  ASSERT_EQ(::chown("/run/host/allocs/file", kTargetCaller, kTargetCaller), 0);
  before_ = Inventory::Take();
  EXPECT_EQ(CodeOf(AttachTo("/run/host/elsewhere", Propagation::kPrivate)),
            "PermissionDenied");
  EXPECT_EQ(CodeOf(AttachTo("/run/host/allocs/roots", Propagation::kPrivate)),
            "PermissionDenied");
  EXPECT_EQ(CodeOf(AttachTo("/run/host/allocs/file", Propagation::kPrivate)),
            "InvalidArgument");
  Request swap = OnDirectory(Propagation::kPrivate);
  swap.body.attach.replaces = 1;
  fds_.emplace_back(::open(kTargetDirectory, O_PATH | O_CLOEXEC));
  EXPECT_EQ(CodeOf(Send(swap)), "InvalidArgument");
  fds_.clear();
  EXPECT_EQ(CodeOf(Send(OnDirectory(Propagation::kPrivate))),
            "InvalidArgument");
  EXPECT_EQ(Difference(before_, Inventory::Take()), "");
}

// The owner moves the directory between the check and the mount.
TEST_F(DirectoryTarget, ADirectoryThatIsMovedAwayMeanwhileGetsNoMount) {
  MakeDirectories("/run/host/elsewhere");
  ASSERT_EQ(::chown("/run/host/elsewhere", kTargetCaller, kTargetCaller), 0);
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
    EXPECT_EQ(CodeOf(AttachTo(kTargetDirectory, Propagation::kPrivate)),
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
      AttachTo(kTargetDirectory, Propagation::kHostToTask);
      reached = kernel_.calls().size() >= k;
      kernel_.FailAt(0, 0);
      ASSERT_EQ(ErrorOf(Detach(Inspect().body.mount.mount_id)), "");
      ASSERT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
      ASSERT_EQ(Difference(before_, Inventory::Take()), "");
    }
  }
}

// The kernel is one before Linux 6.8, so mountd knows a mount by an id that the
// kernel gives to the next mount.
class ReusedMountId : public DirectoryTarget {
 protected:
  void SetUp() override {
    DirectoryTarget::SetUp();
    if (!IsSkipped()) {
      kernel_.HideUniqueMountIds();
      dispatcher_.emplace(kernel_, config_);
    }
  }

  // Unmounts mountd's mount behind its back and mounts `source` at `point`,
  // which then has the same id. Tries again if another program has got the id.
  // Returns the id, or 0 after too many tries.
  std::uint64_t MountWithItsId(const char* source, const char* type,
                               const std::string& point) {
    constexpr char kFill[] = "/run/host/fill";
    constexpr int kTries = 100;
    constexpr int kMostFreeIds = 2000;
    MakeDirectories(kFill);
    std::uint64_t found = 0;
    for (int i = 0; i < kTries && found == 0; ++i) {
      const Reply reply = AttachTo(kTargetDirectory, Propagation::kPrivate);
      if (reply.code != 0) {
        break;
      }
      const std::uint64_t id = reply.body.mount.mount_id;
      // The kernel gives the lowest free id, so take all lower ones.
      for (int n = 0; n < kMostFreeIds && ReusableId(kFill) < id; ++n) {
        MountTmpfs(kFill);
      }
      Unmount(kTargetDirectory);
      const std::uint64_t flags = *type == '\0' ? std::uint64_t{MS_BIND} : 0;
      EXPECT_EQ(::mount(source, point.c_str(), type, flags, nullptr), 0);
      if (ReusableId(point) == id) {
        found = id;
      } else {
        Unmount(point);
      }
    }
    while (::umount2(kFill, UMOUNT_NOFOLLOW) == 0) {
    }
    return found;
  }
  // Writes another placeholder for the mount.
  static void Rewrite(const std::string& text) {
    ASSERT_EQ(::unlink(kTarget), 0);
    ASSERT_EQ(::symlink(text.c_str(), kTarget), 0);
  }
};

TEST_F(ReusedMountId, AnotherMountIsNotTakenForTheOneThatHadIt) {
  const std::string beside = "/run/host/allocs/web/beside";
  const std::string elsewhere = "/run/host/another/elsewhere";
  MountTmpfs("/run/host/another");
  MakeDirectories(beside);
  MakeDirectories(elsewhere);
  struct Case {
    const char* what;
    const char* source;
    const char* type;
    std::string point;
    bool is_inspected;  // whether a look at the mount alone tells it, too
  };
  for (const Case& one :
       {Case{"another file system", "tmpfs", "tmpfs", beside, true},
        Case{"the same source on another mount", "/run/host/data", "",
             elsewhere, true},
        Case{"another source in the file system", "/run/host/ro", "", beside,
             false}}) {
    SCOPED_TRACE(one.what);
    const std::uint64_t id = MountWithItsId(one.source, one.type, one.point);
    ASSERT_NE(id, 0U);
    EXPECT_EQ(Inspect().body.mount.mount_id, one.is_inspected ? 0U : id);
    EXPECT_EQ(ErrorOf(Detach(id)), "");
    EXPECT_FALSE(Exists(kTarget));
    ASSERT_EQ(ReusableId(one.point), id);
    // A naive daemon unmounts the mount that has the id.
    const auto naive = propagation::MountinfoInspector(kernel_).Facts(id);
    ASSERT_TRUE(naive) << naive.error().Message();
    EXPECT_NAIVE(naive->point == one.point &&
                 ::umount2(naive->point.c_str(), 0) == 0);
  }
  Unmount("/run/host/another");
  EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
}

TEST_F(ReusedMountId, APlaceholderOfAnOlderVersionIsRead) {
  for (const char* rest : {"", " 0 0"}) {
    const Reply reply = AttachTo(kTargetDirectory, Propagation::kPrivate);
    ASSERT_EQ(ErrorOf(reply), "");
    const std::uint64_t id = reply.body.mount.mount_id;
    char text[PATH_MAX] = {};
    ASSERT_GT(::readlink(kTarget, text, sizeof(text) - 1), 0);
    Rewrite(std::to_string(id) + rest);
    EXPECT_EQ(Inspect().body.mount.mount_id, id);
    for (const std::string& broken :
         {std::to_string(id) + " 0", std::to_string(id) + " 0 0 0 0",
          std::string(text) + " 0", std::string(text) + "x"}) {
      Rewrite(broken);
      EXPECT_EQ(CodeOf(Inspect()), "Internal") << broken;
    }
    Rewrite(std::to_string(id) + rest);
    EXPECT_EQ(UndoAll(id), "");
  }
}

// The mount then lies on another one than its placeholder says.
TEST_F(ReusedMountId, AMountThatComesMeanwhileDoesNotKeepOurs) {
  int attached = 0;
  kernel_.Before([&](const std::string& call) {
    attached += call == "AttachTree" ? 1 : 0;
    // The first attach is the anchor's.
    if (call == "AttachTree" && attached == 2) {
      MountTmpfs(kTargetDirectory);
    }
  });
  EXPECT_EQ(CodeOf(AttachTo(kTargetDirectory, Propagation::kPrivate)),
            "FailedPrecondition");
  kernel_.Before(nullptr);
  EXPECT_EQ(attached, 2);
  EXPECT_TRUE(Exists(std::string(kTargetDirectory) + "/mark"));
  Unmount(kTargetDirectory);
  EXPECT_FALSE(Exists(kTarget));
  EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
  EXPECT_EQ(Difference(before_, Inventory::Take()), "");
}

class Detached : public DirectoryTarget {
 protected:
  void SetUp() override {
    DirectoryTarget::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    // The executor keeps a bare mount namespace from its first OpenTree on.
    ASSERT_EQ(ErrorOf(Open("data", Propagation::kPrivate)), "");
    last_fd_.reset();
    before_ = Inventory::Take();
  }
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

TEST_F(Detached, AFileIsHandedOutAsWell) {
  const Reply reply = Open("file", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  struct stat there = {};
  struct stat source = {};
  ASSERT_EQ(::fstat(last_fd_.get(), &there), 0);
  ASSERT_EQ(::stat("/run/host/one", &source), 0);
  EXPECT_EQ(there.st_ino, source.st_ino);
  if (HasUniqueMountIds()) {
    EXPECT_NE(reply.body.handed_out.mount_id, 0U);
    EXPECT_NE(reply.body.handed_out.reusable_id, 0U);
  }
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
