// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "tests/root/container_fixture.h"
#include "tests/support/naive.h"

// Mounts in containers (propagation/container_target.h).
namespace mountd::testing {
namespace {

using exec::Propagation;
using exec::Reply;

class ContainerTarget : public ContainerFixture {};

TEST_F(ContainerTarget, EveryPropagationIsAsItIsInTheInbox) {
  const std::string empty = MountsOf(*container_);
  for (const bool old_kernel : {false, true}) {
    if (old_kernel) {
      kernel_.HideUniqueMountIds();
      dispatcher_.emplace(kernel_, config_);
    }
    for (const Propagation mode :
         {Propagation::kPrivate, Propagation::kHostToTask,
          Propagation::kBidirectional}) {
      SCOPED_TRACE(static_cast<int>(mode));
      const Reply reply = AttachTo(*container_, mode);
      ASSERT_EQ(ErrorOf(reply), "");
      EXPECT_TRUE(Sees(*container_, "/data/file"));
      EXPECT_EQ(
          Do(*container_,
             [] {
               struct statvfs st = {};
               return ::statvfs("/data", &st) == 0
                          ? static_cast<int>(st.f_flag & (ST_NOSUID | ST_NODEV))
                          : 255;
             }),
          ST_NOSUID | ST_NODEV);
      MountTmpfs("/run/host/data/sub");
      EXPECT_EQ(Sees(*container_, "/data/sub/mark"),
                mode != Propagation::kPrivate);
      Unmount("/run/host/data/sub");
      EXPECT_EQ(Do(*container_,
                   [] {
                     return ::mount("t", "/data/sub", "tmpfs", 0, nullptr) == 0
                                ? 0
                                : 1;
                   }),
                0);
      EXPECT_EQ(real_.Stat(-1, "/run/host/data/sub")->mount_root,
                mode == Propagation::kBidirectional);
      EXPECT_EQ(Inspect().body.mount.mount_id, reply.body.mount.mount_id);
      EXPECT_EQ(Inspect().body.mount.master, reply.body.mount.master);
      if (mode == Propagation::kBidirectional) {
        Unmount("/run/host/data/sub");
      }
      ExpectNothingLeft(reply.body.mount.mount_id);
      EXPECT_EQ(MountsOf(*container_), empty);
    }
  }
}

TEST_F(ContainerTarget, AFileIsMountedOnAFile) {
  const Reply reply =
      AttachTo(*container_, Propagation::kPrivate, "/file", "file");
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(Inspect().body.mount.mount_id, reply.body.mount.mount_id);
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
}

TEST_F(ContainerTarget, RefusesWhatIsNoPlaceForAMount) {
  const std::string empty = MountsOf(*container_);
  const auto refused = [&](const std::string& path,
                           const std::string& volume = "data") {
    return CodeOf(AttachTo(*container_, Propagation::kPrivate, path, volume));
  };
  const Inventory host = Inventory::Take();
  EXPECT_EQ(refused("/none"), "NotFound");
  EXPECT_EQ(refused("/link"), "InvalidArgument");
  EXPECT_EQ(refused("/link/sub"), "InvalidArgument");
  EXPECT_EQ(refused("/file"), "FailedPrecondition");
  EXPECT_EQ(refused("/data", "file"), "FailedPrecondition");
  for (const char* path : {"", "/", "data", "/data/", "/data//sub", "/data/..",
                           "/./data", "/proc", "/proc/self", "/sys/fs"}) {
    EXPECT_EQ(refused(path), "InvalidArgument") << path;
  }
  EXPECT_EQ(Difference(host, Inventory::Take()), "");
  EXPECT_EQ(MountsOf(*container_), empty);
}

TEST_F(ContainerTarget, RefusesWhatIsNoContainerOfTheCgroup) {
  Child& plain = Spawn("web", [] { return true; });
  EXPECT_EQ(ErrorOf(AttachTo(plain, Propagation::kPrivate)),
            "FailedPrecondition: open container pidfd: the process has the "
            "host's mount namespace, so it is in no container");
  Child& outside =
      SpawnOutside([] { return BecomeContainer(false); }, CLONE_NEWPID);
  EXPECT_EQ(CodeOf(AttachTo(outside, Propagation::kPrivate)),
            "PermissionDenied");
  MakeCgroup("other");
  Child& other = SpawnContainer("other");
  EXPECT_EQ(CodeOf(AttachTo(other, Propagation::kPrivate)),
            "FailedPrecondition");
  Child& ended = SpawnContainer("web");
  End(ended);
  EXPECT_EQ(CodeOf(AttachTo(ended, Propagation::kPrivate)),
            "FailedPrecondition");
  Child file;
  file.pidfd.reset(::open("/run/host/file", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(CodeOf(AttachTo(file, Propagation::kPrivate)), "InvalidArgument");
  file.pidfd.reset(
      ::open(("/proc/" + std::to_string(container_->pid) + "/ns/mnt").c_str(),
             O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(CodeOf(AttachTo(file, Propagation::kPrivate)), "InvalidArgument");
  file.pidfd.reset();
  // A naive daemon enters the mount namespace of any pidfd.
  EXPECT_NAIVE(Do(outside, [] {
                 return ::mount("t", "/data2", "tmpfs", 0, nullptr);
               }) == 0);
  End(outside);
  End(other);
  End(plain);
  EXPECT_FALSE(Exists("/run/mountd/base/a/web/app"));
}

TEST_F(ContainerTarget, IsForThoseWhoseRuleSaysSo) {
  config_.rules.back().containers = false;
  EXPECT_EQ(CodeOf(AttachTo(*container_, Propagation::kPrivate)),
            "PermissionDenied");
  EXPECT_FALSE(Sees(*container_, "/data/file"));
}

// The container could change the flags of a mount that any process attaches
// there, so mountd attaches nothing in such a user namespace.
TEST_F(ContainerTarget, RefusesAUserNamespaceThatCouldTakeFlagsOff) {
  Child& rootless = Spawn(
      "web", [] { return BecomeContainer(true); }, CLONE_NEWPID);
  const auto remount = [&](const char* path) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::_exit(::setns(rootless.pidfd.get(), CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
                      ::mount(nullptr, path, nullptr, MS_REMOUNT | MS_BIND,
                              nullptr) == 0
                  ? 0
                  : 1);
    }
    int status = 1;
    ::waitpid(pid, &status, 0);
    return status == 0;
  };
  // A naive daemon enters and attaches.
  EXPECT_EQ(Do(rootless,
               [&] {
                 return ::mount("t", "/data2", "tmpfs",
                                MS_RDONLY | MS_NOSUID | MS_NODEV, nullptr);
               }),
            0);
  const std::string naive = MountsOf(rootless);
  EXPECT_NAIVE(remount("/data2"));
  EXPECT_NE(MountsOf(rootless), naive);
  EXPECT_NE(ErrorOf(AttachTo(rootless, Propagation::kPrivate))
                .find("has its own user namespace"),
            std::string::npos);
  EXPECT_FALSE(Sees(rootless, "/data/file"));
}

// The child that has entered the container repeats the checks.
TEST_F(ContainerTarget, AProcessThatLeavesItsCgroupMeanwhileIsRefused) {
  const std::string empty = MountsOf(*container_);
  kernel_.Before([&](const std::string& call) {
    if (call == "RunChild") {
      std::ofstream("/sys/fs/cgroup/cgroup.procs") << container_->pid;
    }
  });
  const Reply reply = AttachTo(*container_, Propagation::kPrivate);
  kernel_.Before(nullptr);
  EXPECT_NE(ErrorOf(reply).find("another cgroup"), std::string::npos)
      << ErrorOf(reply);
  EXPECT_EQ(MountsOf(*container_), empty);
  // A naive daemon has checked before, and enters.
  EXPECT_NAIVE(Do(*container_, [] {
                 return ::mount("t", "/data2", "tmpfs", 0, nullptr);
               }) == 0);
}

TEST_F(ContainerTarget, AChildThatEndsBeforeItEntersIsAnError) {
  const std::string empty = MountsOf(*container_);
  kernel_.Before([](const std::string& call) {
    if (call == "RunChild") {
      MountTmpfs("/dev");  // so the child finds no /dev/null
    }
  });
  const Reply reply = AttachTo(*container_, Propagation::kPrivate);
  kernel_.Before(nullptr);
  Unmount("/dev");
  EXPECT_EQ(CodeOf(reply), "Unavailable") << ErrorOf(reply);
  EXPECT_EQ(MountsOf(*container_), empty);
}

TEST_F(ContainerTarget, OneNameIsOneMount) {
  const Reply reply = AttachTo(*container_, Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  Child& other = SpawnContainer("web");
  EXPECT_EQ(CodeOf(AttachTo(other, Propagation::kPrivate)), "AlreadyExists");
  EXPECT_FALSE(Sees(other, "/data/file"));
  EXPECT_EQ(CodeOf(Attach("data", Propagation::kPrivate)), "AlreadyExists");
  EXPECT_EQ(CodeOf(Detach(reply.body.mount.mount_id + 1)),
            "FailedPrecondition");
  EXPECT_TRUE(Sees(*container_, "/data/file"));
  ExpectNothingLeft(reply.body.mount.mount_id);
}

TEST_F(ContainerTarget, GoesWithItsContainerAndIsMountedInTheNext) {
  const Reply reply = AttachTo(*container_, Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  End(*container_);
  EXPECT_EQ(Inspect().body.mount.mount_id, 0U);
  Child& next = SpawnContainer("web");
  const Reply again = AttachTo(next, Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(again), "");
  EXPECT_TRUE(Sees(next, "/data/file"));
  End(next);
  EXPECT_EQ(ErrorOf(Detach(again.body.mount.mount_id)), "");
  EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
  EXPECT_FALSE(Exists("/run/mountd/base/a/web/app"));
}

TEST_F(ContainerTarget, IsFoundWhereTheContainerMovedIt) {
  const Reply reply = AttachTo(*container_, Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  ASSERT_EQ(
      Do(*container_,
         [] { return ::mount("/data", "/data2", nullptr, MS_MOVE, nullptr); }),
      0);
  ASSERT_EQ(Do(*container_,
               [] { return ::mount("t", "/data", "tmpfs", 0, nullptr); }),
            0);
  ASSERT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  EXPECT_FALSE(Sees(*container_, "/data2/file"));
  // The mount that the old path now leads to is not ours.
  EXPECT_NE(MountsOf(*container_).find(" /data "), std::string::npos);
}

TEST_F(ContainerTarget, IsBusyWhileItIsUsedOrCovered) {
  const Reply reply = AttachTo(*container_, Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  const std::uint64_t id = reply.body.mount.mount_id;
  Child& user = Spawn("web", [&] {
    return ::setns(container_->pidfd.get(), CLONE_NEWNS) == 0 &&
           ::chdir("/data") == 0;
  });
  EXPECT_EQ(CodeOf(Detach(id)), "Busy");
  End(user);
  ASSERT_EQ(Do(*container_,
               [] { return ::mount("t", "/data", "tmpfs", 0, nullptr); }),
            0);
  EXPECT_EQ(CodeOf(Detach(id)), "Busy");
  ASSERT_EQ(Do(*container_, [] { return ::umount2("/data", 0); }), 0);
  ExpectNothingLeft(id);
}

TEST_F(ContainerTarget, EveryFailureLeavesNothing) {
  const std::string empty = MountsOf(*container_);
  for (const Propagation mode :
       {Propagation::kPrivate, Propagation::kHostToTask}) {
    // "kept" keeps the anchor, so that the host is the same before and after.
    const Reply kept = Attach("data", mode, "kept");
    ASSERT_EQ(ErrorOf(kept), "");
    const Inventory host = Inventory::Take();
    for (const int error : exec::kErrorsOfAnyCall) {
      for (std::size_t k = 1;; ++k) {
        kernel_.FailAt(k, error);
        const Reply reply = AttachTo(*container_, mode);
        const std::vector<std::string> calls = kernel_.calls();
        kernel_.FailAt(0, 0);
        if (reply.code != 0) {
          SCOPED_TRACE("call " + std::to_string(k) + ": " + calls[k - 1] +
                       ", errno " + std::to_string(error));
          ASSERT_EQ(MountsOf(*container_), empty);
          ASSERT_EQ(Difference(host, Inventory::Take()), "");
        } else {
          ASSERT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
          ASSERT_EQ(MountsOf(*container_), empty);
        }
        if (calls.size() < k) {
          break;
        }
      }
    }
    ASSERT_EQ(ErrorOf(Detach(kept.body.mount.mount_id, "kept")), "");
    ASSERT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
  }
  // The calls of the executor's child have failed, too.
  ExpectFailed({"EnterMountNamespace"});
}

TEST_F(ContainerTarget, AKillAnywhereIsTakenAwayByTheNextDetach) {
  const std::string empty = MountsOf(*container_);
  bool reached = true;
  for (std::size_t k = 1; reached; ++k) {
    kernel_.DieAt(k);
    AttachTo(*container_, Propagation::kHostToTask);
    reached = kernel_.calls().size() >= k;
    const std::string call = reached ? kernel_.calls()[k - 1] : "";
    kernel_.FailAt(0, 0);
    const Reply left = Inspect();
    ASSERT_EQ(ErrorOf(left), "");
    ASSERT_EQ(ErrorOf(Detach(left.body.mount.mount_id)), "");
    ASSERT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
    ASSERT_EQ(MountsOf(*container_), empty) << k << ": " << call;
  }
}

}  // namespace
}  // namespace mountd::testing
