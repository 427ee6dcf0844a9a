// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Attacks by way of mounts in containers (propagation/container_target.h), as
// in attacks_test.cc: with processes that are no containers, and with
// containers that share their mounts with others.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "tests/root/attacker.h"
#include "tests/root/container_fixture.h"
#include "tests/support/naive.h"

namespace mountd::testing {
namespace {

using exec::Propagation;
using exec::Reply;
using exec::Request;

constexpr char kSharedPlace[] = "/run/shared";
constexpr char kHostsRoot[] =
    "FailedPrecondition: open container pidfd: its root directory is the "
    "host's or the caller's, but a container has its own";

std::uint32_t PidOf(const Child& child) {
  return static_cast<std::uint32_t>(child.pid);
}

// Makes a service with PrivateTmp= as systemd does: the host's mounts in a
// mount namespace of its own.
bool BecomeService() {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_PRIVATE | MS_REC, nullptr) == 0;
}

// Makes such a service whose root is a bind mount of the host's /, as a sandbox
// makes it.
bool BecomeBoundService() {
  return BecomeService() &&
         ::mount("/", kContainersRoot, nullptr, MS_BIND | MS_REC, nullptr) ==
             0 &&
         ::chdir(kContainersRoot) == 0 &&
         ::syscall(SYS_pivot_root, ".", ".") == 0 &&
         ::umount2(".", MNT_DETACH) == 0 && ::chdir("/") == 0;
}

// Makes a jail in the host's tree, without a root mount of its own.
bool BecomeJail() {
  return BecomeService() && ::chroot(kContainersRoot) == 0 && ::chdir("/") == 0;
}

class ContainerAttacks : public ContainerFixture {
 protected:
  void SetUp() override {
    ContainerFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    MakeDirectories("/run/etc");
    WriteFile("/run/etc/passwd", "root:x:0:0::/:/bin/sh\n");
  }

  Request TmpfsInContainer(const std::string& path) const {
    Request request = TmpfsRequest();
    request.body.attach.target_kind = exec::TargetKind::kContainer;
    request.body.attach.container = exec::Container(cgroup_, path, caller_);
    return request;
  }
  // A naive daemon takes any process with a mount namespace of its own for a
  // container. Its mount for the attacker then replaces the files that a setuid
  // program of the host trusts.
  static bool NaiveMountGivesTheAttackerItsEtc(const Child& service) {
    return NaiveMountGivesTheAttacker(service, "/run/etc");
  }
  static bool NaiveMountGivesTheAttacker(const Child& container,
                                         const char* directory) {
    const auto attack = [&] {
      if (::mount("t", directory, "tmpfs", MS_NOSUID | MS_NODEV, "mode=777") !=
          0) {
        return 1;
      }
      const std::string file = std::string(directory) + "/passwd";
      const bool written = AsAttacker([&] {
                             WriteFile(file, "root::0:0::/:/bin/sh\n");
                             return Exists(file) ? 0 : 1;
                           }) == 0;
      ::umount2(directory, MNT_DETACH);
      return written ? 0 : 1;
    };
    return Do(container, attack) == 0;
  }
  // Returns the namespace that a naive daemon compares.
  static std::string NamespaceOf(pid_t process, const char* kind) {
    std::error_code gone;
    return std::filesystem::read_symlink(
        "/proc/" + std::to_string(process) + "/ns/" + kind, gone);
  }
};

TEST_F(ContainerAttacks, AServiceWithAMountNamespaceOfItsOwnIsNoContainer) {
  config_.rules.back().container_tmpfs = true;
  Child& service = Spawn("web", BecomeService);
  const std::string before = MountsOf(service);
  EXPECT_NAIVE(NaiveMountGivesTheAttackerItsEtc(service));
  // The agent passes a pidfd of itself, or of another process of its service.
  caller_ = PidOf(service);
  EXPECT_EQ(ErrorOf(SendFor(service, TmpfsInContainer("/run/etc"))),
            "FailedPrecondition: open container pidfd: the process is the "
            "caller itself, not a container");
  Child& other = Spawn(
      "web", [&] { return ::setns(service.pidfd.get(), CLONE_NEWNS) == 0; });
  EXPECT_EQ(ErrorOf(SendFor(other, TmpfsInContainer("/run/etc"))),
            "FailedPrecondition: open container pidfd: the process is in the "
            "mount namespace of the caller, not in a container");
  // An agent that runs elsewhere passes a pidfd of another service.
  caller_ = static_cast<std::uint32_t>(::getpid());
  for (const Child* child : {&service, &other}) {
    EXPECT_EQ(ErrorOf(SendFor(*child, TmpfsInContainer("/run/etc"))),
              "FailedPrecondition: open container pidfd: the process has the "
              "host's pid namespace, so it is in no container");
    EXPECT_EQ(CodeOf(AttachTo(*child, Propagation::kPrivate, "/run/etc")),
              "FailedPrecondition");
  }
  EXPECT_EQ(MountsOf(service), before);
}

// A service with a pid namespace of its own (PrivatePIDs=) is no container
// either.
TEST_F(ContainerAttacks, ARootThatIsTheHostsIsNoContainers) {
  config_.rules.back().container_tmpfs = true;
  for (bool (*become)() : {BecomeService, BecomeBoundService, BecomeJail}) {
    Child& service = Spawn("web", become, CLONE_NEWPID);
    const std::string before = MountsOf(service);
    EXPECT_NAIVE(NaiveMountGivesTheAttackerItsEtc(service));
    EXPECT_EQ(ErrorOf(SendFor(service, TmpfsInContainer("/run/etc"))),
              kHostsRoot);
    EXPECT_EQ(ErrorOf(AttachTo(service, Propagation::kPrivate, "/run/etc")),
              kHostsRoot);
    EXPECT_EQ(MountsOf(service), before);
  }
  EXPECT_FALSE(Exists("/run/mountd/base/a/web/app"));
}

// Any user can make a pid namespace in a user namespace, while the mount
// namespace and the root directory stay those of the service (RootDirectory=).
TEST_F(ContainerAttacks, APidNamespaceThatAnybodyMadeIsNoContainers) {
  auto* child =
      static_cast<pid_t*>(::mmap(nullptr, sizeof(pid_t), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(child, MAP_FAILED);
  Child& service = Spawn("web", [&] {
    if (!BecomeContainer(false) ||
        ::setresgid(kAttacker, kAttacker, kAttacker) != 0 ||
        ::setresuid(kAttacker, kAttacker, kAttacker) != 0 ||
        ::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) {
      return false;
    }
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) {
        ::pause();
      }
    }
    *child = pid;
    return *child > 0;
  });
  Child inside;
  inside.pid = *child;
  inside.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, *child, 0U)));
  ASSERT_TRUE(inside.pidfd.valid());
  const std::string before = MountsOf(service);
  EXPECT_NAIVE(NamespaceOf(*child, "pid") != NamespaceOf(::getpid(), "pid") &&
               NaiveMountGivesTheAttacker(inside, "/data"));
  EXPECT_NE(ErrorOf(AttachTo(inside, Propagation::kPrivate))
                .find("its pid namespace belongs to a user namespace"),
            std::string::npos);
  EXPECT_EQ(MountsOf(service), before);
  ::kill(inside.pid, SIGKILL);
  ::munmap(child, sizeof(pid_t));
}

// The agent itself runs in a container whose cgroup it was granted. Setuid
// programs of that container would trust the new mount.
TEST_F(ContainerAttacks, TheCallersOwnContainerIsNone) {
  caller_ = PidOf(*container_);
  Child& same = Spawn("web", [&] {
    return ::setns(container_->pidfd.get(), CLONE_NEWNS) == 0;
  });
  EXPECT_NAIVE(NamespaceOf(same.pid, "mnt") != NamespaceOf(::getpid(), "mnt") &&
               NaiveMountGivesTheAttacker(same, "/data"));
  EXPECT_EQ(CodeOf(AttachTo(same, Propagation::kPrivate)),
            "FailedPrecondition");
  // The same root with other namespaces is still what setuid programs there
  // use.
  Child& copy = Spawn(
      "web",
      [&] {
        return ::setns(container_->pidfd.get(), CLONE_NEWNS) == 0 &&
               ::unshare(CLONE_NEWNS) == 0;
      },
      CLONE_NEWPID);
  EXPECT_EQ(ErrorOf(AttachTo(copy, Propagation::kPrivate)), kHostsRoot);
  EXPECT_FALSE(Sees(copy, "/data/file"));
  Child& other = SpawnContainer("web");
  const Reply reply = AttachTo(other, Propagation::kPrivate);
  EXPECT_EQ(ErrorOf(reply), "");
  ExpectNothingLeft(reply.body.mount.mount_id);
}

// Another process may have the caller's pid by the time of the check. A naive
// daemon compares with the caller's namespace by pid, and cannot tell any more
// where the caller ran.
TEST_F(ContainerAttacks, ACallerThatHasEndedGetsNothing) {
  Child& caller = Spawn("web", BecomeService);
  Child& same = Spawn(
      "web", [&] { return ::setns(caller.pidfd.get(), CLONE_NEWNS) == 0; });
  const auto is_callers = [&same, number = caller.pid] {
    return NamespaceOf(same.pid, "mnt") == NamespaceOf(number, "mnt");
  };
  EXPECT_TRUE(is_callers());
  caller_ = PidOf(caller);
  End(caller);
  EXPECT_NAIVE(!is_callers() && NaiveMountGivesTheAttackerItsEtc(same));
  EXPECT_EQ(ErrorOf(AttachTo(*container_, Propagation::kPrivate)),
            "FailedPrecondition: open container pidfd: the process that "
            "connected has ended; connect again");
}

TEST_F(ContainerAttacks, ATmpfsIsForThoseWhoseRuleSaysSo) {
  EXPECT_NAIVE(NaiveMountGivesTheAttacker(*container_, "/data"));
  EXPECT_EQ(CodeOf(SendFor(*container_, TmpfsInContainer("/data"))),
            "PermissionDenied");
  EXPECT_EQ(Do(*container_, [] { return Exists("/data/x") ? 1 : 0; }), 0);
  config_.rules.back().container_tmpfs = true;
  const Reply reply = SendFor(*container_, TmpfsInContainer("/data"));
  EXPECT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  config_.rules.back().containers = false;
  EXPECT_EQ(CodeOf(SendFor(*container_, TmpfsInContainer("/data"))),
            "PermissionDenied");
}

// The process enters a service's namespace after the executor has checked it.
TEST_F(ContainerAttacks, AProcessThatGoesElsewhereMeanwhileIsRefused) {
  Child& service = Spawn("web", BecomeService);
  static int to = -1;
  to = service.pidfd.get();
  const auto become = [] {
    ::signal(SIGUSR1, [](int) { ::setns(to, CLONE_NEWNS); });
    return BecomeContainer(false);
  };
  Child& moving = Spawn("web", become, CLONE_NEWPID);
  const std::string services = MountsOf(service);
  const auto move = [&](Child& child) {
    ::kill(child.pid, SIGUSR1);
    EXPECT_TRUE(Within([&] { return MountsOf(child) == services; }));
  };
  // The naive way checks once, and mounts later.
  Child& naive = Spawn("web", become, CLONE_NEWPID);
  const bool looked_well = Sees(naive, "/data2");
  move(naive);
  EXPECT_NAIVE(looked_well && NaiveMountGivesTheAttackerItsEtc(naive));
  kernel_.Before([&](const std::string& call) {
    if (call == "RunChild") {
      move(moving);
    }
  });
  EXPECT_EQ(ErrorOf(AttachTo(moving, Propagation::kPrivate)),
            "FailedPrecondition: open container pidfd: the process has moved "
            "to another mount namespace");
  kernel_.Before(nullptr);
  EXPECT_EQ(MountsOf(service), services);
}

// ---- Containers whose mounts are shared ------------------------------------

class SharedContainerAttacks : public ContainerAttacks {
 protected:
  void SetUp() override {
    ContainerAttacks::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    MountTmpfs(kSharedPlace);
    MakeDirectories(std::string(kSharedPlace) + "/etc");
    ASSERT_EQ(::mount(nullptr, kSharedPlace, nullptr, MS_SHARED, nullptr), 0);
    sharing_ = &SpawnContainer("web", kSharedPlace);
  }

  static int MountNaively() {
    return ::mount("t", "/shared/etc", "tmpfs", 0, nullptr) == 0 ? 0 : 1;
  }
  // Looks in `child`, or on the host if `child` is null.
  static bool IsMounted(const Child* child, const std::string& path) {
    const auto look = [&] {
      return exec::RealKernel().Stat(-1, path)->mount_root ? 1 : 0;
    };
    return child == nullptr ? look() == 1 : Do(*child, look) == 1;
  }
  std::string RefusedAt(const std::string& path,
                        Propagation mode = Propagation::kPrivate) {
    const Reply reply = AttachTo(*sharing_, mode, path);
    if (reply.code == 0) {
      EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
    }
    return ErrorOf(reply).find("shared mount") != std::string::npos
               ? CodeOf(reply)
               : ErrorOf(reply);
  }

  Child* sharing_ = nullptr;
};

// The mount is shared as `-v /srv/x:/x:rshared` makes it, or a bidirectional
// mount of mountd's. A mount below it would reach the host.
TEST_F(SharedContainerAttacks, AMountInItComesToNobodyElse) {
  const std::string etc = std::string(kSharedPlace) + "/etc";
  ASSERT_EQ(Do(*sharing_, MountNaively), 0);
  EXPECT_NAIVE(IsMounted(nullptr, etc));
  ASSERT_EQ(::umount2(etc.c_str(), 0), 0);
  const Inventory host = Inventory::Take();
  const std::string before = MountsOf(*sharing_);
  for (const Propagation mode :
       {Propagation::kPrivate, Propagation::kHostToTask,
        Propagation::kBidirectional}) {
    EXPECT_EQ(RefusedAt("/shared/etc", mode), "FailedPrecondition");
    EXPECT_FALSE(IsMounted(nullptr, etc));
    EXPECT_EQ(MountsOf(*sharing_), before);
  }
  EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
  EXPECT_EQ(Difference(host, Inventory::Take()), "");
  // Places outside the shared mount still work.
  EXPECT_EQ(RefusedAt("/data"), "");
  EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
}

// The host itself has left the peer group, so only the third namespace would
// see the mount.
TEST_F(SharedContainerAttacks, AMountInItComesToNoThirdNamespace) {
  Child& third = Spawn("web", [] { return ::unshare(CLONE_NEWNS) == 0; });
  ASSERT_EQ(::mount(nullptr, kSharedPlace, nullptr, MS_PRIVATE, nullptr), 0);
  const std::string etc = std::string(kSharedPlace) + "/etc";
  ASSERT_EQ(Do(*sharing_, MountNaively), 0);
  EXPECT_NAIVE(IsMounted(&third, etc));
  ASSERT_EQ(Do(*sharing_, [] { return ::umount2("/shared/etc", 0); }), 0);
  EXPECT_EQ(RefusedAt("/shared/etc"), "FailedPrecondition");
  EXPECT_FALSE(IsMounted(&third, etc));
}

// A mount in no peer group has no slaves either, so nothing propagates.
TEST_F(SharedContainerAttacks, AMountInASlaveIsTheContainersAlone) {
  ASSERT_EQ(Do(*sharing_,
               [] {
                 return ::mount(nullptr, "/shared", nullptr, MS_SLAVE, nullptr);
               }),
            0);
  Child& copy = Spawn("web", [&] {
    return ::setns(sharing_->pidfd.get(), CLONE_NEWNS) == 0 &&
           ::unshare(CLONE_NEWNS) == 0;
  });
  const Reply reply =
      AttachTo(*sharing_, Propagation::kBidirectional, "/shared/etc");
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_TRUE(Sees(*sharing_, "/shared/etc/file"));
  EXPECT_FALSE(IsMounted(nullptr, std::string(kSharedPlace) + "/etc"));
  EXPECT_FALSE(IsMounted(&copy, "/shared/etc"));
  ExpectNothingLeft(reply.body.mount.mount_id);
}

// The group has no other member now, but the executor cannot see who will join
// it.
TEST_F(SharedContainerAttacks, AGroupOfTheContainersOwnIsRefused) {
  ASSERT_EQ(
      Do(*container_,
         [] { return ::mount(nullptr, "/", nullptr, MS_SHARED, nullptr); }),
      0);
  // Another namespace joins between a naive daemon's check and its mount.
  Child& third = Spawn("web", [&] {
    return ::setns(container_->pidfd.get(), CLONE_NEWNS) == 0 &&
           ::unshare(CLONE_NEWNS) == 0;
  });
  const auto mount_naively = [] {
    return ::mount("t", "/data", "tmpfs", 0, nullptr);
  };
  EXPECT_NAIVE(Do(*container_, mount_naively) == 0 &&
               IsMounted(&third, "/data"));
  ASSERT_EQ(Do(*container_, [] { return ::umount2("/data", 0); }), 0);
  EXPECT_NE(ErrorOf(AttachTo(*container_, Propagation::kPrivate))
                .find("shared mount"),
            std::string::npos);
}

// The target joins the host's peer group between the check and the mount. The
// executor reads back that the mount has propagated, and removes all its
// copies.
TEST_F(SharedContainerAttacks, AMountThatWasSentIsTakenAwayEverywhere) {
  ASSERT_EQ(Do(*sharing_,
               [] {
                 return ::mount("/shared/etc", "/data", nullptr, MS_BIND,
                                nullptr) == 0 &&
                                ::mount(nullptr, "/data", nullptr, MS_PRIVATE,
                                        nullptr) == 0 &&
                                ::mkdir("/data/sub", 0755) == 0
                            ? 0
                            : 1;
               }),
            0);
  const std::string sub = std::string(kSharedPlace) + "/etc/sub";
  for (const Propagation mode :
       {Propagation::kPrivate, Propagation::kHostToTask,
        Propagation::kBidirectional}) {
    SCOPED_TRACE(static_cast<int>(mode));
    auto* seen = static_cast<bool*>(::mmap(nullptr, 1, PROT_READ | PROT_WRITE,
                                           MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(seen, MAP_FAILED);
    bool attached = false;
    // This hook runs in the executor's child, which is in the container.
    kernel_.Before([&](const std::string& call) {
      if (call == "AttachTree" && !Exists("/run/host")) {
        attached = ::move_mount(AT_FDCWD, "/shared", AT_FDCWD, "/data",
                                MOVE_MOUNT_SET_GROUP) == 0;
      } else if (attached) {
        // A naive daemon ends here, with the mount visible on the host, too.
        *seen = exec::RealKernel().Stat(-1, "/shared/etc/sub")->mount_root;
        attached = false;
      }
    });
    EXPECT_EQ(CodeOf(AttachTo(*sharing_, mode, "/data/sub")),
              "FailedPrecondition");
    kernel_.Before(nullptr);
    EXPECT_NAIVE(*seen);
    EXPECT_FALSE(IsMounted(nullptr, sub));
    EXPECT_FALSE(Sees(*sharing_, "/data/sub/file"));
    ::munmap(seen, 1);
    ASSERT_EQ(Do(*sharing_,
                 [] {
                   return ::mount(nullptr, "/data", nullptr, MS_PRIVATE,
                                  nullptr);
                 }),
              0);
  }
  EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
}

}  // namespace
}  // namespace mountd::testing
