// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Attacks by way of mounts. Each attack fails against the executor, and
// succeeds in the same test against a naive daemon, which shows that the test
// could fail.
#include "tests/root/attacks/attacks_test.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "tests/support/naive.h"

namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;
using exec::Request;

bool NaiveBindReadOnly(const std::string& source, const std::string& target) {
  return NaiveBind(source, target) &&
         ::mount(nullptr, target.c_str(), nullptr,
                 MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) == 0;
}

TEST_F(Attacks, AReadOnlyMountIsAtNoTimeWritable) {
  ASSERT_EQ(::chmod("/run/host/data", 0777), 0);
  constexpr char kOpenTarget[] = "/run/mountd/base/a/open/app/data";
  const auto is_hit = [] { return Exists("/run/host/data/pwned"); };
  const auto write_at = [](const char* path) {
    const std::string file = std::string(path) + "/pwned";
    return [file] {
      const UniqueFd fd(
          ::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    };
  };
  Request request = AttachRequest("data", Propagation::kPrivate);
  request.body.attach.target = exec::Target("open", "app", "data");
  const auto detach = [&](const Reply& reply) {
    return Call(PlanKind::kDetach, [&](PlanBody* body) {
      body->detach = {exec::Target("open", "app", "data"),
                      reply.body.mount.mount_id};
    });
  };
  {
    const Attacker attacker(write_at(kOpenTarget));
    request.body.attach.attributes = exec::kReadOnly;
    for (int i = 0; i < kTimes; ++i) {
      const Reply reply = Send(request);
      ASSERT_EQ(ErrorOf(reply), "");
      ASSERT_TRUE(Within([&] { return detach(reply).code == 0; }));
    }
    EXPECT_FALSE(is_hit());
    // The same attacker writes to a mount that is not read-only, so it did try.
    request.body.attach.attributes = 0;
    const Reply reply = Send(request);
    ASSERT_EQ(ErrorOf(reply), "");
    EXPECT_TRUE(Within(is_hit));
    ASSERT_TRUE(Within([&] { return detach(reply).code == 0; }));
  }
  ASSERT_EQ(::unlink("/run/host/data/pwned"), 0);
  const Attacker attacker(write_at(kNaiveTarget));
  EXPECT_NAIVE(Within([&] {
    NaiveBindReadOnly("/run/host/data", kNaiveTarget);
    ::umount2(kNaiveTarget, MNT_DETACH);
    return is_hit();
  }));
}

TEST_F(Attacks, AMountStackedOnOursIsNotTakenDownForIt) {
  const Reply reply = Attach("data", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  MountTmpfs(kTarget);
  EXPECT_EQ(CodeOf(Detach(reply.body.mount.mount_id)), "FailedPrecondition");
  EXPECT_TRUE(Exists(std::string(kTarget) + "/mark"));
  NaiveUnmount(kTarget);
  EXPECT_NAIVE(!Exists(std::string(kTarget) + "/mark"));
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
}

// Root moves mountd's mount away and puts another mount in its place. The
// executor must not unmount that one.
TEST_F(Attacks, AMountThatTookOursPlaceIsNotTakenDownForIt) {
  const Reply reply = Attach("data", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  // A mount below a shared parent cannot be moved, so the parent becomes
  // private first.
  ASSERT_EQ(::mount(nullptr, "/run/mountd/base", nullptr, MS_PRIVATE, nullptr),
            0);
  ASSERT_EQ(::mount(kTarget, kNaiveTarget, nullptr, MS_MOVE, nullptr), 0);
  MountTmpfs(kTarget);
  EXPECT_EQ(CodeOf(Detach(reply.body.mount.mount_id)), "FailedPrecondition");
  EXPECT_TRUE(Exists(std::string(kTarget) + "/mark"));
  NaiveUnmount(kTarget);
  EXPECT_NAIVE(!Exists(std::string(kTarget) + "/mark"));
  EXPECT_TRUE(Exists(std::string(kNaiveTarget) + "/file"));
}

// Fact: attaching below a shared parent makes the mount shared, whatever its
// propagation was.
TEST_F(Attacks, APrivateMountBelowASharedParentStaysPrivate) {
  const auto reaches_copy = [](const std::string& target) {
    const UniqueFd home(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(::unshare(CLONE_NEWNS), 0);
    const UniqueFd copy(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(::setns(home.get(), CLONE_NEWNS), 0);
    MountTmpfs(target + "/sub");
    EXPECT_EQ(::setns(copy.get(), CLONE_NEWNS), 0);
    const bool seen = Exists(target + "/sub/mark");
    EXPECT_EQ(::setns(home.get(), CLONE_NEWNS), 0);
    Unmount(target + "/sub");
    return seen;
  };
  ASSERT_EQ(ErrorOf(Attach("data", Propagation::kPrivate)), "");
  EXPECT_FALSE(reaches_copy(kTarget));
  MountTmpfs("/run/shared");
  ASSERT_EQ(::mount(nullptr, "/run/shared", nullptr, MS_SHARED, nullptr), 0);
  MakeDirectories("/run/shared/naive");
  const UniqueFd tree(::open_tree(AT_FDCWD, "/run/host/real",
                                  OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  struct mount_attr attributes = {};
  attributes.propagation = MS_PRIVATE;
  ASSERT_EQ(::mount_setattr(tree.get(), "", AT_EMPTY_PATH, &attributes,
                            sizeof(attributes)),
            0);
  ASSERT_EQ(::move_mount(tree.get(), "", AT_FDCWD, "/run/shared/naive",
                         MOVE_MOUNT_F_EMPTY_PATH),
            0);
  MakeDirectories("/run/host/real/sub");
  EXPECT_NAIVE(reaches_copy("/run/shared/naive"));
}

// Fact: below a private parent, copied mount namespaces keep the volume after
// our unmount.
TEST_F(Attacks, ACopiedNamespaceDoesNotKeepAVolume) {
  MountTmpfs("/run/host/real/inner");
  const Reply reply = Attach("data", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  ASSERT_TRUE(NaiveBind("/run/host/data", kNaiveTarget));
  const UniqueFd home(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
  const UniqueFd copy(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::setns(home.get(), CLONE_NEWNS), 0);
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  NaiveUnmount(kNaiveTarget);
  ASSERT_EQ(::setns(copy.get(), CLONE_NEWNS), 0);
  EXPECT_FALSE(Exists(std::string(kTarget) + "/file"));
  EXPECT_NAIVE(Exists(std::string(kNaiveTarget) + "/file"));
  ASSERT_EQ(::setns(home.get(), CLONE_NEWNS), 0);
}

// Fact: a slave of a private mount becomes private, and the kernel reports no
// error.
TEST_F(Attacks, APropagationThatCannotBeIsRefused) {
  ASSERT_EQ(::mount("tmpfs", "/run/host/data", "tmpfs", 0, nullptr), 0);
  MakeDirectories("/run/host/data/sub");
  EXPECT_EQ(CodeOf(Attach("data", Propagation::kHostToTask)),
            "FailedPrecondition");
  ASSERT_TRUE(NaiveBind("/run/host/data", kNaiveTarget));
  ASSERT_EQ(::mount(nullptr, kNaiveTarget, nullptr, MS_SLAVE | MS_REC, nullptr),
            0);
  MountTmpfs("/run/host/data/sub");
  EXPECT_NAIVE(!Exists(std::string(kNaiveTarget) + "/sub/mark"));
}

}  // namespace
}  // namespace mountd::testing
