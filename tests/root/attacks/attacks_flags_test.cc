// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Attacks by way of a volume's content and of the kernel's own file systems, as
// in attacks_test.cc.
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include "tests/root/attacker.h"
#include "tests/root/attacks/attacks_test.h"
#include "tests/root/executor_fixture.h"
#include "tests/root/unshared.h"
#include "tests/support/naive.h"

namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;
using exec::Request;

constexpr char kMounted[] = "/run/mountd/base/a/open/app/data";

class FlagAttacks : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    PrepareBase();
    ASSERT_EQ(
        ErrorOf(Call(PlanKind::kPrepareAllocation,
                     [](PlanBody* body) {
                       body->allocation = {exec::ToWire("open"), kAttacker};
                     })),
        "");
    MakeDirectories(kNaiveTarget);
  }
  // Mounts "data" for the attacker, and once more as a naive daemon does.
  void MountBoth() {
    Request request = AttachRequest("data", Propagation::kPrivate);
    request.body.attach.target = exec::Target("open", "app", "data");
    ASSERT_EQ(ErrorOf(Send(request)), "");
    ASSERT_TRUE(NaiveBind("/run/host/data", kNaiveTarget));
  }
};

TEST_F(FlagAttacks, ASetuidProgramInAVolumeMakesNobodyRoot) {
  const std::string program = "/run/host/data/test";
  std::filesystem::copy_file("/usr/bin/test", program);
  ASSERT_EQ(::chown(program.c_str(), 0, 0), 0);
  ASSERT_EQ(::chmod(program.c_str(), 04755), 0);
  MountBoth();
  // True if a user who runs the program there becomes effectively root.
  const auto is_root = [](const std::string& directory) {
    return AsAttacker([&] {
             const std::string file = directory + "/test";
             ::execl(file.c_str(), "test", "-O", "/proc/1", nullptr);
             return 127;
           }) == 0;
  };
  EXPECT_FALSE(is_root(kMounted));
  EXPECT_NAIVE(is_root(kNaiveTarget));
}

TEST_F(FlagAttacks, ADeviceInAVolumeIsNotOpened) {
  const std::string device = "/run/host/data/null";
  ASSERT_EQ(::mknod(device.c_str(), S_IFCHR | 0666, ::makedev(1, 3)), 0);
  ASSERT_EQ(::chmod(device.c_str(), 0666), 0);
  MountBoth();
  const auto opened = [](const std::string& directory) {
    return AsAttacker([&] {
      const UniqueFd fd(
          ::open((directory + "/null").c_str(), O_RDWR | O_CLOEXEC));
      return fd.valid() ? 0 : errno;
    });
  };
  EXPECT_EQ(opened(kMounted), EACCES);
  EXPECT_NAIVE(opened(kNaiveTarget) == 0);
}

// The source's path does not begin with /proc, which is all that a naive daemon
// checks.
TEST_F(FlagAttacks, TheKernelsFileSystemsAreNoSourceWhereverTheyAre) {
  constexpr char kMoved[] = "/run/host/moved-proc";
  MakeDirectories(kMoved);
  ASSERT_EQ(::mount("/proc", kMoved, nullptr, MS_BIND, nullptr), 0);
  EXPECT_EQ(CodeOf(Attach("moved-proc", Propagation::kPrivate)),
            "FailedPrecondition");
  EXPECT_FALSE(Exists(kTarget));
  ASSERT_FALSE(std::string(kMoved).starts_with("/proc"));
  ASSERT_TRUE(NaiveBind(kMoved, kNaiveTarget));
  EXPECT_NAIVE(Exists(std::string(kNaiveTarget) + "/self"));
}

constexpr char kChroot[] = "/run/host/data/chroot";
constexpr char kInTarget[] = "/run/mountd/base/a/web/app/data/chroot";

constexpr std::array<Propagation, 3> kModes = {Propagation::kPrivate,
                                               Propagation::kHostToTask,
                                               Propagation::kBidirectional};

// Returns mountinfo alone, because an Inventory would walk through /proc.
std::string Mountinfo() {
  std::ifstream file("/proc/self/mountinfo");
  return {std::istreambuf_iterator<char>(file), {}};
}

bool MountAt(const std::string& path, const char* type) {
  MakeDirectories(path);
  return ::mount(type, path.c_str(), type, 0, nullptr) == 0;
}

// Clones the whole tree for a task, as a naive daemon does. True if the task
// then has below kNaiveTarget what `looks` sees. With a uid 0 of the host's
// such a file system lets the task leave its container.
bool NaiveClone(const std::string& source, const std::function<bool()>& looks) {
  const bool mounted = ::mount(source.c_str(), kNaiveTarget, nullptr,
                               MS_BIND | MS_REC, nullptr) == 0;
  const bool shows = mounted && looks();
  // The clone is private first, because as a peer its unmount would take the
  // source's own mounts with it.
  EXPECT_EQ(
      ::mount(nullptr, kNaiveTarget, nullptr, MS_PRIVATE | MS_REC, nullptr), 0);
  EXPECT_EQ(::umount2(kNaiveTarget, MNT_DETACH), 0);
  return shows;
}

bool NaiveCloneShows(const std::string& path,
                     const std::string& source = "/run/host/data") {
  return NaiveClone(source, [&] { return Exists(kNaiveTarget + path); });
}

// Clones the source as an fd that a task can attach.
UniqueFd NaiveTree(const std::string& source) {
  return UniqueFd(
      ::open_tree(AT_FDCWD, source.c_str(),
                  OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE));
}

bool Shows(const UniqueFd& tree, const char* path) {
  struct stat st = {};
  return ::fstatat(tree.get(), path, &st, 0) == 0;
}

TEST_F(FlagAttacks, TheKernelsFileSystemsBelowASourceAreNotCloned) {
  for (const unsigned long flags :
       std::array<unsigned long, 2>{MS_BIND, MS_SHARED}) {
    ASSERT_EQ(
        ::mount("/run/host/data", "/run/host/data", nullptr, flags, nullptr),
        0);
  }
  ASSERT_TRUE(MountAt(std::string(kChroot) + "/proc", "proc"));
  EXPECT_NAIVE(NaiveCloneShows("/chroot/proc/sys/kernel/core_pattern"));
  const std::string before = Mountinfo();
  for (const Propagation mode : kModes) {
    EXPECT_EQ(ErrorOf(Attach("data", mode)),
              "FailedPrecondition: mount web/app/data: a file system of the "
              "kernel (proc) is mounted below the source at chroot/proc; "
              "unmount it or mount another directory");
    EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
    EXPECT_EQ(Mountinfo(), before);
    EXPECT_FALSE(Exists(kTarget));
  }
  Unmount(std::string(kChroot) + "/proc");
  const Reply reply = Attach("data", Propagation::kPrivate);
  EXPECT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
}

// The executor decides by the type of each file system, as far as this kernel
// has it. By path, devpts and a tmpfs in a chroot's /dev look alike.
TEST_F(FlagAttacks, TheKernelsFileSystemsBelowASourceGoByTheirTypes) {
  const std::string path = std::string(kChroot) + "/any";
  int tried = 0;
  for (const char* type :
       {"binder",    "binfmt_misc", "bpf",        "cgroup2",   "configfs",
        "debugfs",   "devpts",      "devtmpfs",   "efivarfs",  "fusectl",
        "hugetlbfs", "mqueue",      "nfsd",       "proc",      "pstore",
        "resctrl",   "rpc_pipefs",  "securityfs", "selinuxfs", "smackfs",
        "sysfs",     "tracefs"}) {
    if (!MountAt(path, type)) {
      continue;
    }
    ++tried;
    // The path does not tell a naive daemon the type.
    EXPECT_NAIVE(NaiveClone("/run/host/data", [] {
      return IsMountPoint(std::string(kNaiveTarget) + "/chroot/any");
    }));
    EXPECT_EQ(CodeOf(Attach("data", Propagation::kPrivate)),
              "FailedPrecondition")
        << type;
    Unmount(path);
  }
  EXPECT_GE(tried, 4);
  // A volume may contain mounts of these types.
  for (const char* type : {"tmpfs", "ramfs"}) {
    ASSERT_TRUE(MountAt(path, type));
    const Reply reply = Attach("data", Propagation::kPrivate);
    EXPECT_EQ(ErrorOf(reply), "") << type;
    EXPECT_TRUE(IsMountPoint(std::string(kInTarget) + "/any"));
    EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
    Unmount(path);
  }
}

// The source is a directory that is no mount, as a plugin publishes it, also as
// the replacement of another volume.
TEST_F(FlagAttacks, TheKernelsFileSystemsBelowAPublishedVolumeAreNotCloned) {
  ASSERT_EQ(ErrorOf(Call(
                PlanKind::kPreparePlugin,
                [](PlanBody* body) { body->plugin = {exec::ToWire("csi")}; })),
            "");
  const std::string published = "/run/mountd/base/p/csi/publish/web/" +
                                std::string(VolumeKey::kHexDigits, 'a');
  MakeDirectories(published);
  WriteFile(published + "/file", "");
  Request request = AttachRequest("", Propagation::kPrivate);
  request.body.attach.source = exec::SourcePlan{};
  request.body.attach.source.kind = exec::SourceKind::kPublishedVolume;
  request.body.attach.source.plugin = exec::ToWire("csi");
  request.body.attach.source.volume.fill('a');
  ASSERT_TRUE(MountAt(published + "/chroot/proc", "proc"));
  EXPECT_NAIVE(
      NaiveCloneShows("/chroot/proc/sys/kernel/core_pattern", published));
  // A mount beside the published directory does not matter.
  ASSERT_TRUE(MountAt("/run/mountd/base/p/csi/publish/web/beside", "sysfs"));
  EXPECT_NE(ErrorOf(Send(request))
                .find("(proc) is mounted below the source at chroot/proc"),
            std::string::npos);
  EXPECT_FALSE(Exists(kTarget));
  const Reply old = Attach("data", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(old), "");
  request.body.attach.replaces = old.body.mount.mount_id;
  EXPECT_EQ(CodeOf(Send(request)),
            real_.CanMountBeneath() ? "FailedPrecondition" : "NotSupported");
  EXPECT_TRUE(Exists(std::string(kTarget) + "/file"));
  EXPECT_FALSE(Exists(std::string(kInTarget) + "/proc"));
  EXPECT_EQ(ErrorOf(Detach(old.body.mount.mount_id)), "");
  Unmount(published + "/chroot/proc");
  request.body.attach.replaces = 0;
  const Reply reply = Send(request);
  EXPECT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  Unmount("/run/mountd/base/p/csi/publish/web/beside");
}

// A user who may mount in the source does so between the executor's check and
// its clone. The executor finds the mount in the clone itself.
TEST_F(FlagAttacks, AKernelsFileSystemThatComesMeanwhileIsTakenAway) {
  const std::string proc = std::string(kChroot) + "/proc";
  MakeDirectories(proc);
  for (const bool old_kernel : {false, true}) {
    if (old_kernel) {
      kernel_.HideUniqueMountIds();
      dispatcher_.emplace(kernel_, config_);
    }
    for (const Propagation mode :
         {Propagation::kPrivate, Propagation::kHostToTask}) {
      SCOPED_TRACE(static_cast<int>(mode));
      // "kept" keeps the anchor, so that later attaches clone only once.
      const Reply kept = Attach("data", mode, "kept");
      ASSERT_EQ(ErrorOf(kept), "");
      bool naive = false;
      int clones = 0;
      kernel_.Before([&](const std::string& call) {
        clones += call == "CloneTree" ? 1 : 0;
        if (call == "CloneTree" && clones == 1) {
          ASSERT_TRUE(MountAt(proc, "proc"));
        }
        naive = naive || Exists(std::string(kInTarget) + "/proc/self");
      });
      EXPECT_NE(ErrorOf(Attach("data", mode)).find("(proc) is mounted below"),
                std::string::npos);
      kernel_.Before(nullptr);
      EXPECT_NAIVE(naive);
      EXPECT_FALSE(Exists(kTarget));
      // From the second attach on, the executor refuses before it attaches
      // anything.
      const std::size_t before = kernel_.calls().size();
      EXPECT_EQ(CodeOf(Attach("data", mode)), "FailedPrecondition");
      EXPECT_EQ(std::count(kernel_.calls().begin() +
                               static_cast<std::ptrdiff_t>(before),
                           kernel_.calls().end(), "AttachTree"),
                0);
      Unmount(proc);
      EXPECT_EQ(ErrorOf(Detach(kept.body.mount.mount_id, "kept")), "");
      EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
    }
  }
}

// Mounts proc in the source between the executor's check and its clone, and
// ends the executor at each call after the clone is beneath the old mount. The
// same plan, sent again, has to check the clone.
TEST_F(FlagAttacks, AKernelsFileSystemInAHalfDoneSwapIsTakenAway) {
  if (!real_.CanMountBeneath()) {
    GTEST_SKIP() << "this kernel cannot mount beneath (Linux 6.5)";
  }
  const std::string proc = std::string(kChroot) + "/proc";
  MakeDirectories(proc);
  ASSERT_EQ(ErrorOf(Attach("data", Propagation::kPrivate, "kept")), "");
  bool naive = false;
  bool has_ended = true;
  for (std::size_t calls = 1; has_ended; ++calls) {
    SCOPED_TRACE(calls);
    const Reply old = Attach("data", Propagation::kPrivate);
    ASSERT_EQ(ErrorOf(old), "");
    Request swap = AttachRequest("data", Propagation::kPrivate);
    swap.body.attach.replaces = old.body.mount.mount_id;
    kernel_.FailAt(0, 0);
    int clones = 0;
    bool is_beneath = false;
    std::size_t calls_after = 0;
    kernel_.Before([&](const std::string& call) {
      clones += call == "CloneTree" ? 1 : 0;
      if (call == "CloneTree" && clones == 1) {
        ASSERT_TRUE(MountAt(proc, "proc"));
      }
      calls_after += is_beneath ? 1 : 0;
      if (call == "AttachBeneath") {
        is_beneath = true;
        kernel_.DieAfter(calls);
      }
    });
    EXPECT_NE(ErrorOf(Send(swap)), "");
    has_ended = calls_after >= calls;
    kernel_.Before(nullptr);
    kernel_.FailAt(0, 0);
    Unmount(proc);
    naive = naive || Exists(std::string(kInTarget) + "/proc/self");
    if (has_ended) {
      EXPECT_EQ(CodeOf(Send(swap)), "FailedPrecondition");
    }
    EXPECT_FALSE(Exists(kInTarget));
  }
  EXPECT_NAIVE(naive);
}

std::uint64_t MountIdOf(const std::string& path) {
  struct statx stx = {};
  EXPECT_EQ(::statx(AT_FDCWD, path.c_str(), 0, STATX_MNT_ID, &stx), 0);
  return stx.stx_mnt_id;
}

// The proc mount is older than the first attach, which has checked it
// elsewhere, and is then moved below the source. Its id is therefore known.
TEST_F(FlagAttacks, AKernelsFileSystemThatIsMovedThereIsFound) {
  const std::string proc = std::string(kChroot) + "/proc";
  MakeDirectories(proc);
  ASSERT_TRUE(MountAt("/run/proc", "proc"));
  const Reply first = Attach("data", Propagation::kPrivate, "first");
  ASSERT_EQ(ErrorOf(first), "");
  // A naive daemon remembers the ids of the mounts that it has checked.
  const std::uint64_t looked_at = MountIdOf("/run/proc");
  ASSERT_EQ(::mount("/run/proc", proc.c_str(), nullptr, MS_MOVE, nullptr), 0);
  EXPECT_NAIVE(MountIdOf(proc) == looked_at &&
               NaiveCloneShows("/chroot/proc/sys/kernel/core_pattern"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(CodeOf(Attach("data", Propagation::kPrivate)),
              "FailedPrecondition");
    EXPECT_FALSE(Exists(kTarget));
  }
  Unmount(proc);
  EXPECT_EQ(ErrorOf(Detach(first.body.mount.mount_id, "first")), "");
}

// Checks by statfs(2) each mount that /proc shows below the directory, as a
// naive daemon does.
bool NaiveFindsNoneOf(long type, const std::string& directory) {
  std::ifstream mounts("/proc/self/mounts");
  for (std::string source, path, rest;
       mounts >> source >> path && std::getline(mounts, rest);) {
    struct statfs fs = {};
    if (path.starts_with(directory) && ::statfs(path.c_str(), &fs) == 0 &&
        fs.f_type == type) {
      return false;
    }
  }
  return true;
}

// The path of the mount is longer than the kernel accepts. A user reaches such
// a place by chdir(2) and a name, as fusermount3 does for everybody. The
// executor must neither refuse others' mounts because of it, nor overlook the
// mount's type.
TEST_F(FlagAttacks, AMountWhosePathIsTooLongToTellIsStillLookedAt) {
  const std::string name(250, 'x');
  // Runs `body` in a child whose working directory is that deep. True if it
  // succeeds.
  const auto in_the_deep = [&](const char* top,
                               const std::function<bool()>& body) {
    const pid_t child = ::fork();
    if (child == 0) {
      bool there = ::chdir(top) == 0;
      for (int i = 0; i < 40; ++i) {
        ::mkdir(name.c_str(), 0755);
        there = there && ::chdir(name.c_str()) == 0;
      }
      ::_exit(there && body() ? 0 : 1);
    }
    int status = 1;
    ::waitpid(child, &status, 0);
    return status == 0;
  };
  const auto deep = [&](const char* top, const char* type) {
    return in_the_deep(top, [&] {
      return ::mkdir("at", 0755) == 0 &&
             ::mount(type, "at", type, 0, nullptr) == 0;
    });
  };
  MakeDirectories("/run/host/beside");
  ASSERT_TRUE(deep("/run/host/beside", "tmpfs"));
  const Reply reply = Attach("data", Propagation::kPrivate);
  EXPECT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
  // The source is a mount itself, so the executor adds no anchor above the deep
  // mount.
  ASSERT_EQ(
      ::mount("/run/host/data", "/run/host/data", nullptr, MS_BIND, nullptr),
      0);
  ASSERT_TRUE(deep("/run/host/data", "proc"));
  // A naive daemon asks for the type by the path that /proc prints.
  EXPECT_NAIVE(NaiveFindsNoneOf(PROC_SUPER_MAGIC, "/run/host/data/") &&
               NaiveClone("/run/host/data", [&] {
                 return in_the_deep(kNaiveTarget,
                                    [] { return Exists("at/self"); });
               }));
  EXPECT_EQ(CodeOf(Attach("data", Propagation::kPrivate)),
            "FailedPrecondition");
}

// True if a process with privilege, as tasks of root have it, can enter a mount
// namespace by this file.
bool Enters(const std::string& pin) {
  const pid_t child = ::fork();
  if (child == 0) {
    const UniqueFd fd(::open(pin.c_str(), O_RDONLY | O_CLOEXEC));
    ::_exit(::setns(fd.get(), CLONE_NEWNS) == 0 ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  return status == 0;
}

// Pins a mount namespace that is younger than this process's, because the
// kernel refuses to pin an older one. Since Linux 6.18 each CPU counts
// namespaces for itself, so only those made on some CPUs count as younger.
std::unique_ptr<Unshared> PinYounger(const std::string& pin) {
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    auto other = std::make_unique<Unshared>([cpu] {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      return ::sched_setaffinity(0, sizeof(one), &one) == 0 &&
             ::unshare(CLONE_NEWNS) == 0;
    });
    if (other->valid() &&
        ::mount((other->proc() + "/ns/mnt").c_str(), pin.c_str(), nullptr,
                MS_BIND, nullptr) == 0) {
      return other;
    }
  }
  return nullptr;
}

// A task would leave its own namespace by the pin. If the pinned namespace is
// older than the mounter's, the kernel refuses to clone the whole tree with a
// bare ELOOP.
TEST_F(FlagAttacks, APinnedMountNamespaceBelowASourceIsNamed) {
  MakeDirectories(kChroot);
  const std::string pin = std::string(kChroot) + "/pin";
  WriteFile(pin, "");
  const std::unique_ptr<Unshared> other = PinYounger(pin);
  ASSERT_NE(other, nullptr);
  EXPECT_NAIVE(NaiveClone("/run/host/data", [] {
    return Enters(std::string(kNaiveTarget) + "/chroot/pin");
  }));
  EXPECT_NE(ErrorOf(Attach("data", Propagation::kPrivate))
                .find("(nsfs) is mounted below the source at chroot/pin"),
            std::string::npos);
  Unmount(pin);
}

// A mount that came into an inbox by propagation is visible to a task that
// follows the host, but mountd does not hand it out.
TEST_F(FlagAttacks, TheKernelsFileSystemsInAnInboxAreNotHandedOut) {
  const auto task = [](PlanBody* body) {
    body->task = {exec::ToWire("web"), exec::ToWire("app")};
  };
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareInbox, task)), "");
  const Reply reply = Attach("data", Propagation::kHostToTask);
  ASSERT_EQ(ErrorOf(reply), "");
  ASSERT_EQ(ErrorOf(Call(PlanKind::kOpenInbox, task)), "");
  last_fd_.reset();
  ASSERT_TRUE(MountAt(std::string(kChroot) + "/proc", "proc"));
  EXPECT_NAIVE(Shows(NaiveTree("/run/mountd/base/a/web/app"),
                     "data/chroot/proc/sys/kernel/core_pattern"));
  EXPECT_NE(ErrorOf(Call(PlanKind::kOpenInbox, task)).find("kernel (proc)"),
            std::string::npos);
  EXPECT_FALSE(last_fd_.valid());
  Unmount(std::string(kChroot) + "/proc");
  EXPECT_EQ(ErrorOf(Call(PlanKind::kOpenInbox, task)), "");
  last_fd_.reset();
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
}

// A detached tree consists of the source's own mount alone.
TEST_F(FlagAttacks, ADetachedTreeHasNoneOfTheMountsBelow) {
  ASSERT_TRUE(MountAt(std::string(kChroot) + "/proc", "proc"));
  EXPECT_EQ(ErrorOf(Call(PlanKind::kOpenTree,
                         [](PlanBody* body) {
                           body->open_tree = exec::OpenTreePlan{};
                           body->open_tree.allocation = exec::ToWire("web");
                           body->open_tree.source.host_volume =
                               exec::ToWire("data");
                         })),
            "");
  EXPECT_NAIVE(Shows(NaiveTree("/run/host/data"), "chroot/proc/self"));
  EXPECT_TRUE(Shows(last_fd_, "chroot/proc"));
  EXPECT_FALSE(Shows(last_fd_, "chroot/proc/self"));
  last_fd_.reset();
  Unmount(std::string(kChroot) + "/proc");
}

}  // namespace
}  // namespace mountd::testing
