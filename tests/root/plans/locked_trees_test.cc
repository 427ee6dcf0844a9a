// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Trees that are handed out, whose flags the kernel has locked
// (propagation/lock_tree.h).
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "tests/root/attacker.h"
#include "tests/root/executor_fixture.h"
#include "tests/support/killed_child.h"
#include "tests/support/servers/fuse_server.h"

namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

constexpr char kHere[] = "/run/locked-here";

UniqueFd TreeOf(const char* path, std::uint64_t attributes) {
  UniqueFd tree(::open_tree(
      AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE));
  struct mount_attr change = {};
  change.attr_set = attributes;
  EXPECT_EQ(
      ::mount_setattr(tree.get(), "", AT_EMPTY_PATH, &change, sizeof(change)),
      0);
  return tree;
}

bool AttachLocked(int tree, const char* place) {
  return ::move_mount(tree, "", AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH) == 0;
}

bool WriteTo(const char* path, std::string_view text) {
  const UniqueFd file(::open(path, O_WRONLY | O_CLOEXEC));
  return ::write(file.get(), text.data(), text.size()) ==
         static_cast<ssize_t>(text.size());
}

// Runs in a child. Returns whether a new executor locks three trees, which stay
// open, where root may make one user namespace.
bool LocksThreeTreesWithOneUserNamespace() {
  const bool bounded = ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
                       WriteTo("/proc/self/setgroups", "deny") &&
                       WriteTo("/proc/self/uid_map", "0 0 1") &&
                       WriteTo("/proc/self/gid_map", "0 0 1") &&
                       WriteTo("/proc/sys/user/max_user_namespaces", "1");
  exec::RealKernel kernel;
  std::array<exec::Sys<UniqueFd>, 3> held = {ENOENT, ENOENT, ENOENT};
  for (exec::Sys<UniqueFd>& one : held) {
    const UniqueFd tree = TreeOf("/run/host/data", MOUNT_ATTR_NODEV);
    one = kernel.LockTree(tree.get(), 10s);
  }
  return bounded && held[0] && held[1] && held[2];
}

// Owns a runtime without root that has attached the tree in its own user
// namespace, and waits there.
class RootlessRuntime {
 public:
  explicit RootlessRuntime(int tree) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const UniqueFd ready(ends[0]);
    UniqueFd done(ends[1]);
    pid_ = ::fork();
    if (pid_ == 0) {
      const bool attached = ::setgid(kAttacker) == 0 &&
                            ::setuid(kAttacker) == 0 &&
                            ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
                            AttachLocked(tree, kHere);
      (void)!::write(done.get(), attached ? "y" : "n", 1);
      for (;;) {
        ::pause();
      }
    }
    done.reset();
    char outcome = 0;
    EXPECT_EQ(::read(ready.get(), &outcome, 1), 1);
    EXPECT_EQ(outcome, 'y');
  }
  ~RootlessRuntime() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  RootlessRuntime(const RootlessRuntime&) = delete;
  RootlessRuntime& operator=(const RootlessRuntime&) = delete;

  bool Sees(const std::string& name) const {
    return Exists("/proc/" + std::to_string(pid_) + "/root" + kHere + "/" +
                  name);
  }

 private:
  pid_t pid_ = -1;
};

class LockedTrees : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    PrepareBase();
    MakeDirectories(kHere);
    // Each executor keeps one bare mount namespace from its first locked tree
    // on.
    const UniqueFd tree = TreeOf("/run/host/ro", 0);
    ASSERT_TRUE(real_.LockTree(tree.get(), 10s));
  }

  Reply OpenTree(const char* volume, Propagation propagation) {
    return Call(PlanKind::kOpenTree, [&](PlanBody* body) {
      body->open_tree = exec::OpenTreePlan{};
      body->open_tree.allocation = exec::ToWire("web");
      body->open_tree.source.host_volume = exec::ToWire(volume);
      body->open_tree.propagation = propagation;
    });
  }
  void OpenInbox() {
    const auto task = [](PlanBody* body) {
      body->task = {exec::ToWire("web"), exec::ToWire("app")};
    };
    ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareInbox, task)), "");
    ASSERT_EQ(ErrorOf(Call(PlanKind::kOpenInbox, task)), "");
  }
};

TEST_F(LockedTrees, AnInboxInAUserNamespaceFollowsEachChange) {
  const auto task = [](PlanBody* body) {
    body->task = {exec::ToWire("web"), exec::ToWire("app")};
  };
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareInbox, task)), "");
  const Reply before = Attach("data", Propagation::kPrivate, "before");
  ASSERT_EQ(ErrorOf(before), "");
  const Reply swapped = Attach("data", Propagation::kPrivate, "swapped");
  ASSERT_EQ(ErrorOf(swapped), "");
  OpenInbox();
  const RootlessRuntime runtime(last_fd_.get());
  last_fd_.reset();
  EXPECT_TRUE(runtime.Sees("before/file"));
  // The kernel locks these two together with the inbox, but an unmount in the
  // inbox unlocks them.
  EXPECT_EQ(ErrorOf(Detach(before.body.mount.mount_id, "before")), "");
  EXPECT_FALSE(runtime.Sees("before"));
  if (real_.CanMountBeneath()) {
    WriteFile("/run/host/ro/other", "");
    exec::Request replace =
        AttachRequest("ro", Propagation::kPrivate, "swapped");
    replace.body.attach.replaces = swapped.body.mount.mount_id;
    ASSERT_EQ(ErrorOf(Send(replace)), "");
    EXPECT_TRUE(runtime.Sees("swapped/other"));
    EXPECT_FALSE(runtime.Sees("swapped/file"));
  }
  ASSERT_EQ(ErrorOf(Attach("data", Propagation::kPrivate, "later")), "");
  EXPECT_TRUE(runtime.Sees("later/file"));
}

TEST_F(LockedTrees, ASlaveFollowsItsSourceInAUserNamespace) {
  MountTmpfs("/run/host/data");
  MakeDirectories("/run/host/data/sub");
  ASSERT_EQ(::mount(nullptr, "/run/host/data", nullptr, MS_SHARED, nullptr), 0);
  ASSERT_EQ(ErrorOf(OpenTree("data", Propagation::kHostToTask)), "");
  const RootlessRuntime runtime(last_fd_.get());
  last_fd_.reset();
  EXPECT_TRUE(runtime.Sees("mark"));
  MountTmpfs("/run/host/data/sub");
  EXPECT_TRUE(runtime.Sees("sub/mark"));
  Unmount("/run/host/data/sub");
  EXPECT_FALSE(runtime.Sees("sub/mark"));
}

TEST_F(LockedTrees, RootAttachesOneToo) {
  ASSERT_EQ(ErrorOf(OpenTree("data", Propagation::kPrivate)), "");
  ASSERT_TRUE(AttachLocked(last_fd_.get(), kHere));
  last_fd_.reset();
  EXPECT_TRUE(Exists(std::string(kHere) + "/file"));
  Unmount(kHere);
}

TEST_F(LockedTrees, AFileIsATreeToo) {
  const UniqueFd tree = TreeOf("/run/host/one", MOUNT_ATTR_NODEV);
  const exec::Sys<UniqueFd> locked = real_.LockTree(tree.get(), 10s);
  ASSERT_TRUE(locked);
  struct stat facts = {};
  ASSERT_EQ(::fstat(locked->get(), &facts), 0);
  EXPECT_TRUE(S_ISREG(facts.st_mode));
  struct statvfs flags = {};
  ASSERT_EQ(::fstatvfs(locked->get(), &flags), 0);
  EXPECT_NE(flags.f_flag & ST_NODEV, 0U);
}

TEST_F(LockedTrees, AReadOnlyMountInATreeStaysReadOnly) {
  MountTmpfs("/run/host/data/sub");
  ASSERT_EQ(::chmod("/run/host/data/sub", 0777), 0);
  ASSERT_EQ(::mount(nullptr, "/run/host/data/sub", nullptr,
                    MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr),
            0);
  const auto writes = [](int tree) {
    return AsRootOfOwnNamespaces([tree] {
      struct mount_attr change = {};
      change.attr_clr = MOUNT_ATTR_RDONLY;
      if (!AttachLocked(tree, kHere)) {
        return 126;
      }
      const std::string sub = std::string(kHere) + "/sub";
      ::mount_setattr(AT_FDCWD, sub.c_str(), 0, &change, sizeof(change));
      return ::creat((sub + "/pwned").c_str(), 0600) >= 0 ? 0 : 1;
    });
  };
  const UniqueFd tree = TreeOf("/run/host/data", MOUNT_ATTR_NODEV);
  auto locked = real_.LockTree(tree.get(), 10s);
  ASSERT_TRUE(locked);
  EXPECT_EQ(writes(locked->get()), 1);
  const UniqueFd naive = TreeOf("/run/host/data", MOUNT_ATTR_NODEV);
  EXPECT_EQ(writes(naive.get()), 0) << "the attack works";
}

TEST_F(LockedTrees, MappedIdsStayMapped) {
  MoveHostToExt4();
  ASSERT_EQ(::chown("/run/host/data/file", 1000, 1000), 0);
  const UniqueFd map =
      real_.NewUserNamespace("1000 5000 1\n", "1000 5000 1\n").value();
  const UniqueFd tree = TreeOf("/run/host/data", MOUNT_ATTR_NODEV);
  exec::MountChange change;
  change.set = MOUNT_ATTR_IDMAP;
  change.user_namespace = map.get();
  ASSERT_TRUE(real_.SetMount(tree.get(), false, change));
  auto locked = real_.LockTree(tree.get(), 10s);
  ASSERT_TRUE(locked);
  struct stat facts = {};
  ASSERT_EQ(::fstatat(locked->get(), "file", &facts, 0), 0);
  EXPECT_EQ(facts.st_uid, 5000U);
}

TEST_F(LockedTrees, AChildThatTakesTooLongOrIsKilledLeavesNothing) {
  const auto error_of = [](exec::RealKernel* kernel,
                           std::chrono::milliseconds limit) {
    const UniqueFd tree = TreeOf("/run/host/data", MOUNT_ATTR_NODEV);
    const exec::Sys<UniqueFd> locked = kernel->LockTree(tree.get(), limit);
    return locked ? 0 : locked.error();
  };
  const Inventory before = Inventory::Take();
  for (const long call :
       {KilledChild::kAtOnce, long{SYS_setns}, long{SYS_unshare},
        long{SYS_move_mount}, long{SYS_open_tree}, long{SYS_sendmsg}}) {
    const KilledChild killed(call);
    EXPECT_EQ(error_of(&real_, 10s), ECHILD) << call;
  }
  // A new executor's first two children make its two namespaces.
  for (const long call : {KilledChild::kAtOnce, long{SYS_unshare}}) {
    exec::RealKernel kernel;
    const KilledChild killed(call);
    EXPECT_EQ(error_of(&kernel, 10s), ECHILD) << call;
  }
  for (const long call : {KilledChild::kAtOnce, long{SYS_fsmount},
                          long{SYS_pivot_root}, long{SYS_umount2}}) {
    exec::RealKernel kernel;
    const KilledChild killed(call, 2);
    EXPECT_EQ(error_of(&kernel, 10s), ECHILD) << call;
  }
  EXPECT_EQ(error_of(&real_, 0ms), ETIMEDOUT);
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
  EXPECT_EQ(error_of(&real_, 10s), 0);
}

// A user may hold as many trees as mounts. Root's user namespaces would run out
// if each tree had its own.
TEST_F(LockedTrees, ThoseThatAreHeldShareOneUserNamespace) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(LocksThreeTreesWithOneUserNamespace() ? EXIT_SUCCESS
                                                  : EXIT_FAILURE);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, EXIT_SUCCESS);
}

// The lock asks the server of the tree's file system for nothing.
TEST_F(LockedTrees, AServerThatHangsDoesNotMatter) {
  MakeDirectories("/run/host/fuse");
  FuseServer server("/run/host/fuse");
  ASSERT_TRUE(server.valid());
  const UniqueFd tree = TreeOf("/run/host/fuse", MOUNT_ATTR_NODEV);
  server.Hang();
  EXPECT_TRUE(real_.LockTree(tree.get(), 10s));
  server.Die();
  Unmount("/run/host/fuse");
}

TEST_F(LockedTrees, AnErrorSaysWhatToDoAndNothingIsHandedOut) {
  const std::pair<int, const char*> cases[] = {
      {ENOSPC, "user.max_user_namespaces"},
      {EPERM, "may make no user namespace"},
      {ENOSYS, "CONFIG_USER_NS"},
      {ETIMEDOUT, "call again"},
      {ECHILD, "call again"},
      {EMFILE, "lock tree"},
  };
  const auto task = [](PlanBody* body) {
    body->task = {exec::ToWire("web"), exec::ToWire("app")};
  };
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareInbox, task)), "");
  const std::function<Reply()> plans[] = {
      [&] { return OpenTree("data", Propagation::kPrivate); },
      [&] { return Call(PlanKind::kOpenInbox, task); },
  };
  for (const auto& [error, text] : cases) {
    for (const auto& plan : plans) {
      // The plan goes on without some of the calls before.
      std::string failed;
      for (std::size_t k = 1; failed != "LockTree" && k < 200; ++k) {
        kernel_.FailAt(k, error);
        last_fd_.reset();
        const std::string said = ErrorOf(plan());
        ASSERT_GE(kernel_.calls().size(), k);
        failed = kernel_.calls().at(k - 1);
        if (failed == "LockTree") {
          EXPECT_NE(said.find(text), std::string::npos) << said;
          EXPECT_FALSE(last_fd_.valid());
        }
      }
      ExpectFailed({"LockTree"});
    }
  }
}

}  // namespace
}  // namespace mountd::testing
