// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Attacks on the removal of mounts and trees of files, as in attacks_test.cc.
#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "tests/root/attacker.h"
#include "tests/root/executor_fixture.h"
#include "tests/support/naive.h"
#include "tests/support/running_task.h"

namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;
using exec::Request;

constexpr char kRoot[] = "/run/host/allocs";
constexpr char kWebsTree[] = "/run/host/allocs/web";
constexpr char kSecret[] = "/run/host/secret";
constexpr int kTimes = 50;

class UnmountAttacks : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    PrepareBase();
    MakeDirectories(std::string(kWebsTree) + "/data");
    for (const char* path : {kRoot, kWebsTree, "/run/host/allocs/web/data"}) {
      Give(path);
    }
    RuleConfig rule;
    rule.uids = {kAttacker};
    rule.alloc_roots = {kRoot};
    rule.ids = {{kAttacker, kAttacker}};
    config_.rules.push_back(rule);
  }

  // Sends the request with an fd of the directory that `path` leads to.
  Reply WithDirectory(Request request, const std::string& path) {
    fds_.clear();
    fds_.emplace_back(::open(path.c_str(), O_PATH | O_CLOEXEC));
    const Reply reply = Send(request);
    fds_.clear();
    return reply;
  }
  Reply OnTree(PlanKind kind, const std::string& path) {
    Request request;
    request.kind = kind;
    request.body.tree = exec::TreePlan{};
    request.body.tree.caller.uid = kAttacker;
    request.body.tree.caller.gid_count = 1;
    request.body.tree.caller.gids[0] = kAttacker;
    request.body.tree.uid = kAttacker;
    request.body.tree.gid = kAttacker;
    return WithDirectory(request, path);
  }
};

// Fact: an unmount by an fd takes the mount on top, not the fd's mount.
TEST_F(UnmountAttacks, AnUnmountDoesNotTakeWhatIsStackedOnOurs) {
  const Reply reply = Attach("data", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  UniqueFd ours(::open(kTarget, O_PATH | O_CLOEXEC));
  const std::string by_fd = "/proc/self/fd/" + std::to_string(ours.get());
  MountTmpfs(kTarget);
  EXPECT_EQ(CodeOf(Detach(reply.body.mount.mount_id)), "FailedPrecondition");
  EXPECT_TRUE(Exists(std::string(kTarget) + "/mark"));
  // Even a careful unmount by fd cannot name the fd's mount, and so it takes
  // the mount on top.
  EXPECT_EQ(::umount2(by_fd.c_str(), UMOUNT_NOFOLLOW), -1);
  EXPECT_EQ(errno, EINVAL);
  ASSERT_EQ(::umount2(by_fd.c_str(), MNT_DETACH), 0);
  EXPECT_NAIVE(!Exists(std::string(kTarget) + "/mark"));
  EXPECT_TRUE(Exists(std::string(kTarget) + "/file"));
  // The fd itself keeps the mount busy. The executor holds no such fd.
  EXPECT_EQ(::umount2(by_fd.c_str(), 0), -1);
  EXPECT_EQ(errno, EBUSY);
  ours.reset();
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
}

// The caller owns the directory, and has put a link in its place.
TEST_F(UnmountAttacks, AnUnmountDoesNotFollowALink) {
  Request request = AttachRequest("data", Propagation::kPrivate);
  request.body.attach.target_kind = exec::TargetKind::kDirectory;
  request.body.attach.caller.uid = kAttacker;
  const std::string path = std::string(kWebsTree) + "/data";
  const Reply reply = WithDirectory(request, path);
  ASSERT_EQ(ErrorOf(reply), "");
  MountTmpfs(kSecret);
  MakeDirectories("/run/host/allocs/other");
  ASSERT_EQ(::symlink(kSecret, "/run/host/allocs/other/data"), 0);
  Exchange(kWebsTree, "/run/host/allocs/other");
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  EXPECT_TRUE(Exists(std::string(kSecret) + "/mark"));
  EXPECT_FALSE(IsMountPoint("/run/host/allocs/other/data"));
  ASSERT_EQ(::umount2(path.c_str(), 0), 0);
  EXPECT_NAIVE(!Exists(std::string(kSecret) + "/mark"));
}

TEST_F(UnmountAttacks, ARemovalDoesNotEmptyWhatIsMountedBelow) {
  ASSERT_EQ(::mount("/run/host/data", "/run/host/allocs/web/data", nullptr,
                    MS_BIND, nullptr),
            0);
  EXPECT_EQ(CodeOf(OnTree(PlanKind::kRemoveTree, kWebsTree)), "Busy");
  EXPECT_TRUE(Exists("/run/host/data/file"));
  std::error_code ignored;
  std::filesystem::remove_all(kWebsTree, ignored);
  EXPECT_NAIVE(!Exists("/run/host/data/file"));
}

// Removes naively: a link is unlinked, a directory is emptied.
void NaiveRemove(const std::string& path) {
  if (!IsDirectory(path)) {
    ::unlink(path.c_str());
    return;
  }
  DIR* const directory = ::opendir(path.c_str());
  if (directory == nullptr) {
    return;
  }
  while (const dirent* entry = ::readdir(directory)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") {
      NaiveRemove(path + "/" + name);
    }
  }
  ::closedir(directory);
  ::rmdir(path.c_str());
}

TEST_F(UnmountAttacks, ARemovalDoesNotGoThroughALinkExchangedForADirectory) {
  const std::string tree = std::string(kWebsTree) + "/data";
  const std::string file = std::string(kSecret) + "/key";
  MakeDirectories(kSecret);
  const auto refill = [&] {
    WriteFile(file, "");
    MakeDirectories(tree + "/one");
    Give(tree + "/one");
    for (int i = 0; i < 20; ++i) {
      WriteFile(tree + "/one/" + std::to_string(i), "");
    }
    (void)!::symlink(kSecret, (tree + "/two").c_str());
  };
  const Attacker attacker(
      [one = tree + "/one", two = tree + "/two"] { Exchange(one, two); });
  int removed = 0;
  EXPECT_TRUE(Within([&] {
    refill();
    removed += OnTree(PlanKind::kRemoveTree, tree).code == 0 ? 1 : 0;
    EXPECT_TRUE(Exists(file));
    return removed == kTimes || HasFailure();
  })) << removed;
  EXPECT_NAIVE(Within([&] {
    refill();
    NaiveRemove(tree + "/one");
    NaiveRemove(tree + "/two");
    return !Exists(file);
  })) << "of the naive daemon";
}

// The directory is in a task's own mount and user namespaces. Only its fd opens
// it to another process.
TEST_F(UnmountAttacks, ATreeInATasksNamespaceIsNotTouched) {
  MakeDirectories(RunningTask::kInbox);
  const RunningTask task("/run/host/data", true);
  ASSERT_GT(task.pid(), 0);
  ASSERT_EQ(task.Do([] {
    const bool done = ::mount("t", kWebsTree, "tmpfs", 0, nullptr) == 0 &&
                      ::mkdir("/run/host/allocs/web/data", 0777) == 0 &&
                      ::creat("/run/host/allocs/web/data/file", 0666) >= 0;
    return done ? 0 : errno;
  }),
            0);
  const std::string theirs =
      "/proc/" + std::to_string(task.pid()) + "/root/run/host/allocs/web/data";
  ASSERT_TRUE(Exists(theirs + "/file"));
  Request attach = AttachRequest("data", Propagation::kPrivate);
  attach.body.attach.target_kind = exec::TargetKind::kDirectory;
  const Inventory before = Inventory::Take();
  for (const uid_t caller : {uid_t{0}, uid_t{kAttacker}}) {
    config_.rules.back().uids = {caller};
    attach.body.attach.caller.uid = caller;
    EXPECT_NE(CodeOf(WithDirectory(attach, theirs)), "");
    for (const PlanKind kind : {PlanKind::kRemoveTree, PlanKind::kChownTree}) {
      Request request;
      request.kind = kind;
      request.body.tree = exec::TreePlan{};
      request.body.tree.caller.uid = caller;
      request.body.tree.uid = kAttacker;
      request.body.tree.gid = kAttacker;
      EXPECT_NE(CodeOf(WithDirectory(request, theirs)), "");
    }
  }
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
  ASSERT_TRUE(Exists(theirs + "/file"));
  const UniqueFd directory(::open(theirs.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(::unlinkat(directory.get(), "file", 0), 0);
  EXPECT_NAIVE(!Exists(theirs + "/file"));
}

}  // namespace
}  // namespace mountd::testing
