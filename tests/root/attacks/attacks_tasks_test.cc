// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Attacks by a running task, or by later mounts, on the mounts that the task
// was given; as in attacks_test.cc.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "mountd/policy/policy.h"
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

constexpr char kInboxPath[] = "/run/mountd/base/a/web/app";
constexpr char kInTask[] = "/run/task-inbox/data";

class TaskAttacks : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    MakeDirectories(RunningTask::kInbox);
    MakeDirectories(kPlace);
    PrepareBase();
    ASSERT_EQ(
        ErrorOf(Call(PlanKind::kPrepareInbox,
                     [](PlanBody* body) {
                       body->task = {exec::ToWire("web"), exec::ToWire("app")};
                     })),
        "");
  }
  Reply AttachWith(std::uint32_t attributes, std::uint64_t replaces = 0) {
    Request request = AttachRequest("data", Propagation::kPrivate);
    request.body.attach.attributes = attributes;
    request.body.attach.replaces = replaces;
    return Send(request);
  }
};

// Runs the attack in the task. Returns 0, or the errno of the step that failed.
int TakeOffReadOnly(const char* path) {
  struct mount_attr change = {};
  change.attr_clr = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  return ::mount_setattr(AT_FDCWD, path, 0, &change, sizeof(change)) == 0
             ? 0
             : errno;
}

int WriteIn(const std::string& directory) {
  const UniqueFd file(::open((directory + "/pwned").c_str(),
                             O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  return file.valid() ? 0 : errno;
}

// Enters the running task and attaches there, as a naive daemon does.
bool AttachByEntering(pid_t task, const char* source) {
  const UniqueFd tree(
      ::open_tree(AT_FDCWD, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  struct mount_attr change = {};
  change.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  EXPECT_EQ(
      ::mount_setattr(tree.get(), "", AT_EMPTY_PATH, &change, sizeof(change)),
      0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string path = "/proc/" + std::to_string(task) + "/ns/mnt";
    const UniqueFd mounts(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    ::_exit(::setns(mounts.get(), CLONE_NEWNS) == 0 &&
                    ::move_mount(tree.get(), "", AT_FDCWD, kPlace,
                                 MOVE_MOUNT_F_EMPTY_PATH) == 0
                ? 0
                : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  return status == 0;
}

// Facts: a mount in the inbox reaches a running task, also in a user namespace
// of its own, and its flags are locked there. A mount that a daemon attaches by
// entering the task has no locked flags.
TEST_F(TaskAttacks, ATaskOfItsOwnUserNamespaceCannotTakeTheFlagsOff) {
  const RunningTask task(kInboxPath, true);
  ASSERT_GT(task.pid(), 0);
  ASSERT_EQ(ErrorOf(AttachWith(exec::kReadOnly)), "");
  ASSERT_TRUE(task.Sees("data/file"));
  EXPECT_EQ(task.Do([] { return TakeOffReadOnly(kInTask); }), EPERM);
  EXPECT_EQ(task.Do([] { return WriteIn(kInTask); }), EROFS);
  EXPECT_FALSE(Exists("/run/host/data/pwned"));

  ASSERT_TRUE(AttachByEntering(task.pid(), "/run/host/data"));
  EXPECT_EQ(task.Do([] { return WriteIn(kPlace); }), EROFS);
  EXPECT_EQ(task.Do([] { return TakeOffReadOnly(kPlace); }), 0);
  EXPECT_EQ(task.Do([] { return WriteIn(kPlace); }), 0);
  EXPECT_NAIVE(Exists("/run/host/data/pwned"));
}

// This is no attack but an error of a naive daemon: its later mount is missing
// in the task without any notice.
TEST_F(TaskAttacks, AMountMadeLaterIsNotMissingInTheTask) {
  const RunningTask task(kInboxPath, true);
  ASSERT_GT(task.pid(), 0);
  ASSERT_TRUE(NaiveBind("/run/host/data", kPlace));
  ASSERT_EQ(ErrorOf(AttachWith(0)), "");
  EXPECT_TRUE(Exists("/run/place/file"));
  EXPECT_EQ(task.Do([] { return Exists("/run/place/file") ? 1 : 0; }), 0);
  EXPECT_TRUE(task.Sees("data/file"));
}

// Fact: flags do not propagate, so a naive daemon's change affects only its own
// mount.
TEST_F(TaskAttacks, WhatWasMadeReadOnlyIsReadOnlyInTheTaskToo) {
  if (!real_.CanMountBeneath()) {
    GTEST_SKIP() << "this kernel cannot mount beneath (Linux 6.5)";
  }
  for (const bool user_namespace : {false, true}) {
    SCOPED_TRACE(user_namespace);
    const RunningTask task(kInboxPath, user_namespace);
    ASSERT_GT(task.pid(), 0);
    const Reply old = AttachWith(0);
    ASSERT_EQ(ErrorOf(old), "");
    struct mount_attr change = {};
    change.attr_set = MOUNT_ATTR_RDONLY;
    ASSERT_EQ(::mount_setattr(AT_FDCWD, kTarget, 0, &change, sizeof(change)),
              0);
    EXPECT_EQ(WriteIn(kTarget), EROFS);
    EXPECT_EQ(task.Do([] { return WriteIn(kInTask); }), 0);
    EXPECT_NAIVE(Exists("/run/host/data/pwned"));

    const Reply changed = AttachWith(exec::kReadOnly, old.body.mount.mount_id);
    ASSERT_EQ(ErrorOf(changed), "");
    EXPECT_EQ(task.Do([] { return WriteIn(kInTask); }), EROFS);
    EXPECT_EQ(ErrorOf(Detach(changed.body.mount.mount_id)), "");
    ASSERT_EQ(::unlink("/run/host/data/pwned"), 0);
  }
}

// Fact: a later mount in the source arrives with its own flags, even if the
// target is read-only. A user who may only read therefore does not get later
// mounts.
TEST_F(TaskAttacks, WhoMayOnlyReadGetsNoLaterMountsToWriteTo) {
  RuleConfig rule;
  rule.uids = {kAttacker};
  rule.host_volumes = {"data:ro"};
  config_.rules.push_back(rule);
  const Policy policy(std::make_shared<const Config>(config_));
  Caller caller;
  caller.uid = kAttacker;
  const auto allowed = [&](Propagation mode) {
    const Result<void> may =
        policy.mounts().MayMountHostVolume(caller, "data", true, mode);
    return may ? "" : std::string(CodeName(may.error().code));
  };
  EXPECT_EQ(allowed(Propagation::kHostToTask), "PermissionDenied");
  ASSERT_EQ(allowed(Propagation::kPrivate), "");

  ASSERT_EQ(ErrorOf(AttachWith(exec::kReadOnly)), "");
  ASSERT_EQ(::mount("/run/host/data", kPlace, nullptr, MS_BIND, nullptr), 0);
  struct mount_attr change = {};
  change.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  change.propagation = MS_SLAVE;
  ASSERT_EQ(
      ::mount_setattr(AT_FDCWD, kPlace, AT_RECURSIVE, &change, sizeof(change)),
      0);
  MountTmpfs("/run/host/data/sub");
  EXPECT_NE(WriteIn(std::string(kTarget) + "/sub"), 0);
  EXPECT_FALSE(Exists("/run/host/data/sub/pwned"));
  EXPECT_EQ(WriteIn(std::string(kPlace) + "/sub"), 0);
  EXPECT_NAIVE(Exists("/run/host/data/sub/pwned"));
}

}  // namespace
}  // namespace mountd::testing
