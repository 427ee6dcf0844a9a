// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "tests/root/attacker.h"
#include "tests/root/executor_fixture.h"
#include "tests/support/naive.h"

namespace mountd::testing {
namespace {

using exec::Propagation;
using exec::Reply;
using exec::Request;

constexpr char kFile[] = "/run/mountd/base/a/web/app/data/file";

std::string MappedOwnerOf(const std::string& path) {
  struct stat st = {};
  return ::lstat(path.c_str(), &st) == 0
             ? std::to_string(st.st_uid) + ":" + std::to_string(st.st_gid)
             : "none";
}

std::string ReadLinkOf(const std::string& path) {
  std::error_code gone;
  return std::filesystem::read_symlink(path, gone).string();
}

class IdMap : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    MoveHostToExt4();
    PrepareBase();
    config_.rules[0].ids = {{1000, 1000}, {3000, 3999}};
    // The kernel creates no file in a directory whose owner is not mapped.
    ASSERT_EQ(::chmod("/run/host/data", 0777), 0);
    ASSERT_EQ(::chown("/run/host/data", 3000, 3000), 0);
    ASSERT_EQ(::chown("/run/host/data/file", 1000, 1000), 0);
  }
  Request MappedRequest(const std::string& volume = "data",
                        Propagation mode = Propagation::kPrivate) const {
    Request request = AttachRequest(volume, mode);
    request.body.attach.ids.count = 2;
    request.body.attach.ids.extents = {{{1000, 200000, 1}, {3000, 300000, 10}}};
    return request;
  }
  // Returns to root, and makes the process dumpable again, because the kernel
  // treats setfsuid(2) as a change of privileges.
  static void BeRootAgain() {
    ::setfsuid(0);
    ::setfsgid(0);
    ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  }
  // Returns the errno of creating a file in the mount with these ids, or 0.
  static int CreateAs(std::uint32_t id, const std::string& name) {
    // An fd leads there, because only root and the owner's group may pass the
    // path.
    const UniqueFd dir(::open(kTarget, O_PATH | O_CLOEXEC));
    ::setfsgid(id);
    ::setfsuid(id);
    const UniqueFd fd(::openat(dir.get(), name.c_str(),
                               O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
    const int err = fd.valid() ? 0 : errno;
    BeRootAgain();
    return err;
  }
};

TEST_F(IdMap, OwnersShowAsOthersBothWays) {
  for (const Propagation mode :
       {Propagation::kPrivate, Propagation::kHostToTask,
        Propagation::kBidirectional}) {
    const Reply reply = Send(MappedRequest("data", mode));
    ASSERT_EQ(ErrorOf(reply), "");
    EXPECT_EQ(MappedOwnerOf(kFile), "200000:200000");
    EXPECT_EQ(CreateAs(300009, "new"), 0);
    EXPECT_EQ(MappedOwnerOf("/run/host/data/new"), "3009:3009");
    ASSERT_EQ(::unlink("/run/host/data/new"), 0);
    EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  }
}

TEST_F(IdMap, WhatIsNotMappedIsNobodysAndCannotBeMade) {
  WriteFile("/run/host/data/roots", "");
  ASSERT_EQ(ErrorOf(Send(MappedRequest())), "");
  EXPECT_EQ(MappedOwnerOf(std::string(kTarget) + "/roots"), "65534:65534");
  for (const std::uint32_t id : {1000U, 300010U, 0U}) {
    EXPECT_EQ(CreateAs(id, "new"), EOVERFLOW) << id;
  }
}

TEST_F(IdMap, OneMapIsMadeOnceAndNotForOthers) {
  const Reply reply = Send(MappedRequest());
  ASSERT_EQ(ErrorOf(reply), "");
  ASSERT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  kernel_.FailAt(0, 0);
  ASSERT_EQ(ErrorOf(Send(MappedRequest())), "");
  const auto made = [&] {
    return std::count(kernel_.calls().begin(), kernel_.calls().end(),
                      "NewUserNamespace");
  };
  EXPECT_EQ(made(), 0);
  Request other = MappedRequest();
  other.body.attach.target = exec::Target("web", "app", "other");
  other.body.attach.ids.count = 1;
  ASSERT_EQ(ErrorOf(Send(other)), "");
  EXPECT_EQ(made(), 1);
  EXPECT_EQ(MappedOwnerOf("/run/mountd/base/a/web/app/other/file"),
            "200000:200000");
}

TEST_F(IdMap, GroupsHaveAMapOfTheirOwn) {
  config_.rules[0].ids = {{1000, 1000}, {3000, 3999}};
  ASSERT_EQ(::chown("/run/host/data", 3000, 3001), 0);
  ASSERT_EQ(::chown("/run/host/data/file", 1000, 3002), 0);
  Request request = MappedRequest();
  request.body.attach.ids.gid_count = 1;
  request.body.attach.ids.gids[0] = {3001, 300000, 10};
  ASSERT_EQ(ErrorOf(Send(request)), "");
  EXPECT_EQ(MappedOwnerOf(kFile), "200000:300001");
  EXPECT_EQ(CreateAs(300000, "new"), 0);
  EXPECT_EQ(MappedOwnerOf("/run/host/data/new"), "3000:3001");
  EXPECT_EQ(CreateAs(200000, "none"), EOVERFLOW) << "no such group";
}

// Needs no ids in the rule. The group is another one than the user's number
// says, as with most system users.
TEST_F(IdMap, TheCallersOwnFilesShowAsOthers) {
  constexpr std::uint32_t kMappedUser = 5000;
  constexpr std::uint32_t kMappedGroup = 6000;
  config_.rules[0].ids = {};
  config_.rules[0].uids = {kMappedUser};
  ASSERT_EQ(::chown("/run/host/data", kMappedUser, kMappedGroup), 0);
  ASSERT_EQ(::chown("/run/host/data/file", kMappedUser, kMappedUser), 0);
  WriteFile("/run/host/data/others", "");
  ASSERT_EQ(::chown("/run/host/data/others", kMappedUser + 1, kMappedGroup), 0);
  Request request = AttachRequest("data", Propagation::kPrivate);
  exec::AttachPlan& plan = request.body.attach;
  plan.caller.uid = kMappedUser;
  plan.caller.gid_count = 1;
  plan.caller.gids[0] = kMappedGroup;
  plan.ids.count = 1;
  plan.ids.extents[0] = {kMappedUser, 100999, 1};
  plan.ids.gid_count = 1;
  plan.ids.gids[0] = {kMappedGroup, 100999, 1};
  Request naive = request;
  naive.body.attach.ids.gids[0].on_disk = kMappedUser;
  EXPECT_EQ(CodeOf(Send(naive)), "InvalidArgument")
      << "a group that has the user's number is not the user's";
  ASSERT_EQ(ErrorOf(Send(request)), "");
  EXPECT_EQ(MappedOwnerOf(kTarget), "100999:100999");
  EXPECT_EQ(MappedOwnerOf(kFile), "100999:65534");
  EXPECT_EQ(MappedOwnerOf(std::string(kTarget) + "/others"), "65534:100999");
  EXPECT_EQ(CreateAs(100999, "new"), 0);
  EXPECT_EQ(MappedOwnerOf("/run/host/data/new"), "5000:6000");
}

TEST_F(IdMap, OneThatIsThereIsNotTakenForTheSame) {
  ASSERT_EQ(ErrorOf(Send(MappedRequest())), "");
  EXPECT_EQ(CodeOf(Send(MappedRequest())), "AlreadyExists");
  EXPECT_EQ(CodeOf(Attach("data", Propagation::kPrivate)), "AlreadyExists");
}

TEST_F(IdMap, AFileSystemThatCannotIsNamed) {
  for (const char* name : {"lower", "upper", "work"}) {
    MakeDirectories(std::string("/run/host/") + name);
  }
  ASSERT_EQ(::mount("overlay", "/run/host/data", "overlay", 0,
                    "lowerdir=/run/host/lower,upperdir=/run/host/upper,"
                    "workdir=/run/host/work"),
            0);
  EXPECT_EQ(CodeOf(Send(MappedRequest())), "NotSupported");
  // The executor keeps the map from now on.
  const Inventory before = Inventory::Take();
  const Reply reply = Send(MappedRequest());
  EXPECT_EQ(CodeOf(reply), "NotSupported");
  EXPECT_NE(ErrorOf(reply).find("overlay"), std::string::npos)
      << ErrorOf(reply);
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
  EXPECT_EQ(ErrorOf(Attach("data", Propagation::kPrivate)), "");
}

TEST_F(IdMap, ATreeOfWhichAPartCannotIsRefusedWhole) {
  MakeDirectories("/run/host/data/sub");
  ASSERT_EQ(::mount("ramfs", "/run/host/data/sub", "ramfs", 0, nullptr), 0);
  const Reply reply = Send(MappedRequest());
  EXPECT_EQ(CodeOf(reply), "NotSupported");
  EXPECT_NE(ErrorOf(reply).find("below"), std::string::npos) << ErrorOf(reply);
  EXPECT_FALSE(Exists(kTarget));
}

TEST_F(IdMap, ASourceThatIsMappedKeepsItsMap) {
  const UniqueFd point(::open("/run/host/data", O_PATH | O_CLOEXEC));
  const UniqueFd tree = real_.CloneTree(point.get(), false).value();
  const UniqueFd map =
      real_.NewUserNamespace("1000 5000 1\n", "1000 5000 1\n").value();
  exec::MountChange change;
  change.set = MOUNT_ATTR_IDMAP;
  change.user_namespace = map.get();
  ASSERT_TRUE(real_.SetMount(tree.get(), false, change));
  ASSERT_TRUE(real_.AttachTree(tree.get(), point.get()));
  EXPECT_EQ(CodeOf(Send(MappedRequest())), "FailedPrecondition");
  ASSERT_EQ(ErrorOf(Attach("data", Propagation::kPrivate)), "");
  EXPECT_EQ(MappedOwnerOf(kFile), "5000:5000");
  EXPECT_EQ(ErrorOf(Attach("data", Propagation::kPrivate)), "") << "adopted";
}

TEST_F(IdMap, IdsThatNoRuleNamesAreRefused) {
  config_.rules[0].ids = {{1000, 1000}, {3000, 3008}};
  const Inventory before = Inventory::Take();
  EXPECT_EQ(CodeOf(Send(MappedRequest())), "InvalidArgument");
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
}

// With such a map, which the configuration cannot grant, a user with the shown
// id would create files of root's.
TEST_F(IdMap, RootsFilesAreNeverShown) {
  ASSERT_EQ(::chown("/run/host/data", 0, 0), 0);
  const UniqueFd point(::open("/run/host/data", O_PATH | O_CLOEXEC));
  const UniqueFd tree = real_.CloneTree(point.get(), false).value();
  const UniqueFd map =
      real_.NewUserNamespace("0 4000 1\n", "0 4000 1\n").value();
  exec::MountChange change;
  change.set = MOUNT_ATTR_IDMAP;
  change.user_namespace = map.get();
  ASSERT_TRUE(real_.SetMount(tree.get(), false, change));
  MakeDirectories("/run/naive");
  const UniqueFd naive(::open("/run/naive", O_PATH | O_CLOEXEC));
  ASSERT_TRUE(real_.AttachTree(tree.get(), naive.get()));
  ::setfsgid(4000);
  ::setfsuid(4000);
  const UniqueFd made(
      ::open("/run/naive/shell", O_CREAT | O_WRONLY | O_CLOEXEC, 04755));
  BeRootAgain();
  EXPECT_EQ(MappedOwnerOf("/run/host/data/shell"), "0:0") << "the attack works";

  Request request = AttachRequest("data", Propagation::kPrivate);
  request.body.attach.ids.count = 1;
  request.body.attach.ids.extents[0] = {0, 4000, 1};
  EXPECT_EQ(CodeOf(Send(request)), "InvalidArgument");
}

TEST_F(IdMap, ANamespaceThatCannotBeMadeLeavesNothing) {
  Request other = MappedRequest();
  other.body.attach.ids.count = 1;
  kernel_.FailAt(0, 0);
  const Reply reply = Send(other);
  ASSERT_EQ(ErrorOf(reply), "");
  const auto& calls = kernel_.calls();
  const auto made = std::find(calls.begin(), calls.end(), "NewUserNamespace");
  ASSERT_NE(made, calls.end());
  const auto at = static_cast<std::size_t>(made - calls.begin()) + 1;
  ASSERT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  ASSERT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
  const Inventory before = Inventory::Take();
  kernel_.FailAt(at, ENOSPC);
  EXPECT_NE(ErrorOf(Send(MappedRequest())), "");
  EXPECT_EQ(kernel_.calls().at(at - 1), "NewUserNamespace");
  kernel_.FailAt(0, 0);
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
  EXPECT_EQ(ErrorOf(Send(MappedRequest())), "");
  ExpectFailed({"NewUserNamespace"});
}

TEST_F(IdMap, AMapTheKernelRefusesIsAnError) {
  EXPECT_FALSE(real_.NewUserNamespace("1000 2000 0\n", "1000 2000 0\n"));
  EXPECT_FALSE(real_.NewUserNamespace("nonsense", "nonsense"));
  EXPECT_TRUE(real_.NewUserNamespace("1000 2000 1\n", "1000 2000 1\n"));
}

// Returns the files of a process. A process that gets into the new user
// namespace is root there, and could take every fd of the child that made the
// namespace (/proc/<pid>/fd), even the executor's own.
std::set<std::string> FilesOf(const std::string& proc) {
  std::set<std::string> files;
  std::error_code gone;
  for (const auto& fd :
       std::filesystem::directory_iterator(proc + "/fd", gone)) {
    files.insert(ReadLinkOf(fd.path()));
  }
  return files;
}

// Returns the files of a child that a naive executor forks for the namespace.
std::set<std::string> FilesOfANaiveChild() {
  const pid_t naive = ::fork();
  if (naive == 0) {
    ::raise(::unshare(CLONE_NEWUSER) == 0 ? SIGSTOP : SIGKILL);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(naive, &status, WUNTRACED);
  const auto files = FilesOf("/proc/" + std::to_string(naive));
  ::kill(naive, SIGKILL);
  ::waitpid(naive, nullptr, 0);
  return files;
}

TEST_F(IdMap, TheChildThatMakesAMapHasNoneOfTheExecutorsFds) {
  const UniqueFd ours(::open("/run/host/data", O_PATH | O_CLOEXEC));
  std::atomic<bool> over = false;
  std::set<std::string> had;
  std::atomic<int> looks = 0;
  const std::string own = ReadLinkOf("/proc/self/ns/user");
  std::thread watcher([&] {
    const std::string children =
        "/proc/self/task/" + std::to_string(::getpid()) + "/children";
    while (!over) {
      std::ifstream list(children);
      for (std::string pid; list >> pid;) {
        const std::string proc = "/proc/" + pid;
        const std::string users = ReadLinkOf(proc + "/ns/user");
        if (users.empty() || users == own) {
          continue;  // still a copy of this process
        }
        had.merge(FilesOf(proc));
        ++looks;
      }
    }
  });
  EXPECT_TRUE(Within([&] {
    EXPECT_TRUE(real_.NewUserNamespace("1000 2000 1\n", "1000 2000 1\n"));
    return looks >= 5;
  }));
  over = true;
  watcher.join();
  EXPECT_FALSE(had.contains("/run/host/data"));
  EXPECT_NAIVE(FilesOfANaiveChild().contains("/run/host/data"));
  for (const std::string& file : had) {
    EXPECT_TRUE(file.empty() || file.starts_with("socket:") ||
                file.starts_with("user:"))
        << file;
  }
}

}  // namespace
}  // namespace mountd::testing
