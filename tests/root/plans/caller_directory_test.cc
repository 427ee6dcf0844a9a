// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/files/caller_directory.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "tests/root/executor_fixture.h"

namespace mountd::testing {
namespace {

constexpr uid_t kOwnerUid = 1234;
constexpr gid_t kOwnerGid = 4321;
constexpr char kAllocRoot[] = "/run/host/alloc";
constexpr char kWebsDirectory[] = "/run/host/alloc/web";

class CallerDirectories : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    RuleConfig rule;
    rule.gids = {kOwnerGid};
    rule.alloc_roots = {"/run/host/elsewhere", kAllocRoot, "/run/mountd/base/a",
                        "/run"};
    config_.rules = {RuleConfig{}, rule};
    caller_.uid = kOwnerUid;
    caller_.gid_count = 1;
    caller_.gids[0] = kOwnerGid;
    inspector_ = propagation::MakeMountInspector(kernel_).value();
    MakeAgents("/run/host/alloc/web/task");
    MakeAgents(kWebsDirectory);
  }

  static void MakeAgents(const std::string& path) {
    MakeDirectories(path);
    ASSERT_EQ(::chown(path.c_str(), kOwnerUid, kOwnerUid), 0);
  }

  static UniqueFd Pass(const std::string& path) {
    UniqueFd fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
    EXPECT_TRUE(fd.valid()) << path;
    return fd;
  }

  Result<propagation::CallerDirectory> Open(const UniqueFd& fd) {
    return propagation::OpenCallerDirectory(
        {kernel_, *inspector_, config_, id_maps_}, fd.get(), caller_,
        "directory");
  }
  std::string OutcomeOf(const UniqueFd& fd) {
    const auto opened = Open(fd);
    return opened ? "" : std::string(CodeName(opened.error().code));
  }
  std::string OutcomeOf(const std::string& path) {
    return OutcomeOf(Pass(path));
  }

  exec::CallerPlan caller_;
  std::unique_ptr<propagation::MountInspector> inspector_;
};

ino_t InodeBehind(int fd) {
  struct stat file = {};
  EXPECT_EQ(::fstat(fd, &file), 0);
  return file.st_ino;
}

TEST_F(CallerDirectories, BeneathARootAreFoundAgain) {
  for (const char* path : {kWebsDirectory, "/run/host/alloc/web/task"}) {
    const UniqueFd passed = Pass(path);
    const auto found = Open(passed);
    ASSERT_TRUE(found.has_value()) << found.error().Message();
    EXPECT_EQ(InodeBehind(found->fd.get()), InodeBehind(passed.get()));
    EXPECT_EQ(found->name,
              std::string(path).substr(std::string(path).rfind('/') + 1));
    EXPECT_TRUE(real_.Stat(found->parent.get(), found->name).has_value());
  }
}

TEST_F(CallerDirectories, OnlyWithARuleForTheCaller) {
  caller_.gids[0] = kOwnerGid + 1;
  EXPECT_EQ(OutcomeOf(kWebsDirectory), "PermissionDenied");
  caller_.gids[0] = kOwnerGid;
  caller_.gid_count = 0;
  EXPECT_EQ(OutcomeOf(kWebsDirectory), "PermissionDenied");
  config_.rules[1].uids = {kOwnerUid};
  EXPECT_EQ(OutcomeOf(kWebsDirectory), "");
}

TEST_F(CallerDirectories, OnlyBelowARoot) {
  MakeAgents("/run/host/other");
  MakeAgents("/run/host/allocated");
  MakeAgents(kAllocRoot);
  EXPECT_EQ(OutcomeOf("/run/host/other"), "PermissionDenied");
  EXPECT_EQ(OutcomeOf("/run/host/allocated"), "PermissionDenied");
  EXPECT_EQ(OutcomeOf(kAllocRoot), "PermissionDenied");
  EXPECT_EQ(OutcomeOf("/run/host/alloc/web/.."), "PermissionDenied");
}

// The base is refused whatever root's configuration grants.
TEST_F(CallerDirectories, NeverInTheBase) {
  PrepareBase();
  ASSERT_EQ(ErrorOf(Attach("data", exec::Propagation::kPrivate)), "");
  ASSERT_EQ(::chown("/run/host/data/sub", kOwnerUid, kOwnerUid), 0);
  EXPECT_EQ(OutcomeOf(std::string(kTarget) + "/sub"), "PermissionDenied");
}

TEST_F(CallerDirectories, OnlyTheCallersOwn) {
  MakeDirectories("/run/host/alloc/web/roots");
  EXPECT_EQ(OutcomeOf("/run/host/alloc/web/roots"), "PermissionDenied");
}

TEST_F(CallerDirectories, OnlyDirectories) {
  WriteFile("/run/host/alloc/web/file", "");
  ASSERT_EQ(::chown("/run/host/alloc/web/file", kOwnerUid, kOwnerUid), 0);
  EXPECT_EQ(OutcomeOf("/run/host/alloc/web/file"), "InvalidArgument");
}

TEST_F(CallerDirectories, WhatWasRemovedIsRefused) {
  const UniqueFd passed = Pass("/run/host/alloc/web/task");
  ASSERT_EQ(::rmdir("/run/host/alloc/web/task"), 0);
  EXPECT_EQ(OutcomeOf(passed), "PermissionDenied");
  // The hint's path now names another directory, which must not count.
  MakeAgents("/run/host/alloc/web/task (deleted)");
  EXPECT_EQ(OutcomeOf(passed), "PermissionDenied");
}

// The content of a volume has rules of its own, wherever the volume is mounted.
TEST_F(CallerDirectories, WhatIsMountedBelowARootIsRefused) {
  const std::string inner = "/run/host/alloc/web/task/inner";
  ASSERT_EQ(::mount("tmpfs", "/run/host/alloc/web/task", "tmpfs", 0, nullptr),
            0);
  MakeAgents(inner);
  EXPECT_EQ(OutcomeOf(inner), "PermissionDenied");
  EXPECT_EQ(OutcomeOf(Pass("/run/host/alloc/web/task")), "PermissionDenied");
}

TEST_F(CallerDirectories, ARootThatIsAMountIsOne) {
  ASSERT_EQ(::mount("tmpfs", kAllocRoot, "tmpfs", 0, nullptr), 0);
  MakeAgents(kWebsDirectory);
  EXPECT_EQ(OutcomeOf(kWebsDirectory), "");
}

// The kernel prints an allowed path for the fd, but the directory is another
// one. A naive check of the path would let it in.
TEST_F(CallerDirectories, OneOfAnotherMountNamespaceIsRefused) {
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe2(ready.data(), O_CLOEXEC), 0);
  UniqueFd in(ready[0]);
  UniqueFd out(ready[1]);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool made = ::unshare(CLONE_NEWNS) == 0 &&
                      ::mount("tmpfs", kAllocRoot, "tmpfs", 0, nullptr) == 0 &&
                      ::mkdir(kWebsDirectory, 0755) == 0 &&
                      ::chown(kWebsDirectory, kOwnerUid, kOwnerUid) == 0;
    const char told = made ? 1 : 0;
    if (::write(out.get(), &told, 1) == 1) {
      ::pause();
    }
    ::_exit(0);
  }
  char made = 0;
  ASSERT_EQ(::read(in.get(), &made, 1), 1);
  ASSERT_EQ(made, 1);
  const UniqueFd foreign =
      Pass("/proc/" + std::to_string(child) + "/root" + kWebsDirectory);
  const auto text =
      real_.ReadLink(-1, "/proc/self/fd/" + std::to_string(foreign.get()));
  EXPECT_EQ(*text, kWebsDirectory);
  EXPECT_EQ(OutcomeOf(foreign), "FailedPrecondition");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

// The agent exchanges its directory with a link while the executor looks.
// Opening the hint's path can then lead elsewhere; the executor's walk never
// does.
TEST_F(CallerDirectories, ExchangedWithALinkNeverLeadsElsewhere) {
  constexpr char kLink[] = "/run/host/alloc/link";
  MakeAgents("/run/host/secret");
  ASSERT_EQ(::symlink("/run/host/secret", kLink), 0);
  const UniqueFd passed = Pass(kWebsDirectory);
  const UniqueFd secret = Pass("/run/host/secret");
  std::atomic<bool> stop = false;
  std::thread attacker([&] {
    while (!stop) {
      ::renameat2(AT_FDCWD, kWebsDirectory, AT_FDCWD, kLink, RENAME_EXCHANGE);
    }
  });
  const auto open_by_hint = [&] {
    const auto hint =
        real_.ReadLink(-1, "/proc/self/fd/" + std::to_string(passed.get()));
    return UniqueFd(::open(hint->c_str(), O_PATH | O_CLOEXEC));
  };
  bool naive_was_led = false;
  int found = 0;
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while ((!naive_was_led || found < 100) &&
         std::chrono::steady_clock::now() < until) {
    const UniqueFd naive = open_by_hint();
    naive_was_led = naive_was_led ||
                    (naive.valid() &&
                     InodeBehind(naive.get()) == InodeBehind(secret.get()));
    if (const auto opened = Open(passed)) {
      ++found;
      ASSERT_EQ(InodeBehind(opened->fd.get()), InodeBehind(passed.get()));
    }
  }
  stop = true;
  attacker.join();
  EXPECT_TRUE(naive_was_led);
  EXPECT_GE(found, 100);
}

TEST_F(CallerDirectories, EveryKernelCallMayFail) {
  const UniqueFd passed = Pass("/run/host/alloc/web/task");
  kernel_.FailAt(0, 0);
  ASSERT_EQ(OutcomeOf(passed), "");
  const std::size_t calls = kernel_.calls().size();
  for (const int error : exec::kErrorsOfAnyCall) {
    for (std::size_t k = 1; k <= calls; ++k) {
      kernel_.FailAt(k, error);
      EXPECT_NE(OutcomeOf(passed), "") << k << ", errno " << error;
    }
  }
  kernel_.FailAt(0, 0);
}

}  // namespace
}  // namespace mountd::testing
