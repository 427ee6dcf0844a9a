// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Attacks of one user on another with the same primary group, as Debian's
// `adduser --system` makes users; as in attacks_test.cc.
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include "tests/root/attacker.h"
#include "tests/root/executor_fixture.h"
#include "tests/support/naive.h"

namespace mountd::testing {
namespace {

using exec::NetworkFileKind;
using exec::PlanBody;
using exec::PlanKind;
using exec::Reply;
using exec::ToWire;

constexpr uid_t kOwner = 2345;
constexpr gid_t kNogroup = 65534;
// A subordinate id of the owner (subuid(5)).
constexpr uid_t kSubordinate = 300'000;

// Runs `body` in a child with these ids and no supplementary group. Returns its
// exit status.
int As(uid_t uid, gid_t gid, const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(::setgroups(0, nullptr) == 0 && ::setgid(gid) == 0 &&
                    ::setuid(uid) == 0
                ? body()
                : 126);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

// Returns 0, or the errno of opening the file.
int ErrnoOfOpening(const std::string& path, int flags = O_RDONLY) {
  const UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC));
  return fd.valid() ? 0 : errno;
}

// Opens the file as root of a user namespace that maps `uid`, as a runtime
// without root does. Returns 0 or the errno.
int ErrnoOfOpeningAsMappedRoot(uid_t uid, const std::string& path) {
  std::array<int, 2> go{};
  std::array<int, 2> ready{};
  EXPECT_EQ(::pipe2(go.data(), O_CLOEXEC), 0);
  EXPECT_EQ(::pipe2(ready.data(), O_CLOEXEC), 0);
  const UniqueFd go_reads(go[0]);
  UniqueFd go_writes(go[1]);
  const UniqueFd ready_reads(ready[0]);
  UniqueFd ready_writes(ready[1]);
  const pid_t child = ::fork();
  char byte = 0;
  if (child == 0) {
    if (::setgroups(0, nullptr) != 0 || ::setgid(kNogroup) != 0 ||
        ::setuid(uid) != 0 || ::unshare(CLONE_NEWUSER) != 0 ||
        ::write(ready_writes.get(), "x", 1) != 1 ||
        ::read(go_reads.get(), &byte, 1) != 1 || ::setuid(0) != 0) {
      ::_exit(126);
    }
    ::_exit(ErrnoOfOpening(path));
  }
  ready_writes.reset();
  if (::read(ready_reads.get(), &byte, 1) == 1) {
    const std::string map = "/proc/" + std::to_string(child) + "/uid_map";
    const UniqueFd file(::open(map.c_str(), O_WRONLY | O_CLOEXEC));
    const std::string line = "0 " + std::to_string(uid) + " 1\n";
    EXPECT_EQ(::write(file.get(), line.data(), line.size()),
              static_cast<ssize_t>(line.size()));
    EXPECT_EQ(::write(go_writes.get(), "x", 1), 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

class UserAttacks : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareBase)), "");
    ASSERT_EQ(ErrorOf(Prepare("web", kAttacker)), "");
    ASSERT_EQ(ErrorOf(Prepare("db", kOwner)), "");
    // The files below let everybody in, as csi-local's volumes do, so only the
    // directories above protect them.
    ASSERT_EQ(::chmod("/run/host/data", 0777), 0);
    WriteFile("/run/host/data/secret", "s");
    ASSERT_EQ(::chmod("/run/host/data/secret", 0666), 0);
  }

  Reply Prepare(const char* allocation, uid_t uid) {
    return Call(PlanKind::kPrepareAllocation, [&](PlanBody* body) {
      body->allocation = {ToWire(allocation), uid};
    });
  }
  // Makes all that mountd makes for an allocation by names below the base.
  // Returns the paths of the files in it.
  std::vector<std::string> MakeAll() {
    exec::Request attach = AttachRequest("data", exec::Propagation::kPrivate);
    attach.body.attach.target = exec::Target("db", "app", "data");
    EXPECT_EQ(ErrorOf(Send(attach)), "");
    exec::Request tmpfs = TmpfsRequest();
    tmpfs.body.attach.target = exec::Target("db", "app", "scratch");
    tmpfs.body.attach.source.tmpfs.mode = 01777;
    EXPECT_EQ(ErrorOf(Send(tmpfs)), "");
    WriteFile("/run/mountd/base/a/db/app/scratch/secret", "s");
    EXPECT_EQ(ErrorOf(Call(PlanKind::kPrepareInbox,
                           [](PlanBody* body) {
                             body->task = {ToWire("db"), ToWire("boxed")};
                           })),
              "");
    EXPECT_EQ(ErrorOf(WriteNetworkFile()), "");
    return {"/run/mountd/base/a/db/app/data/secret",
            "/run/mountd/base/a/db/app/scratch/secret",
            "/run/mountd/base/a/db/app", "/run/mountd/base/a/db/boxed",
            "/run/mountd/base/d/db/hosts"};
  }
  Reply WriteNetworkFile() {
    fds_.clear();
    fds_.emplace_back(::memfd_create("test", MFD_CLOEXEC));
    EXPECT_EQ(::write(fds_.back().get(), "x\n", 2), 2);
    Reply reply = Call(PlanKind::kWriteNetworkFile, [](PlanBody* body) {
      body->network_file = {ToWire("db"), kOwner, NetworkFileKind::kHosts};
    });
    fds_.clear();
    return reply;
  }
  // Makes the directory naively for the owner's group, as mountd once did.
  static void MakeForGroup(const std::string& path) {
    Make(path, 0710, 0, kNogroup);
  }
  static void Make(const std::string& path, mode_t mode, uid_t uid, gid_t gid) {
    ASSERT_EQ(::mkdir(path.c_str(), mode), 0) << path;
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    ASSERT_EQ(::chown(path.c_str(), uid, gid), 0);
  }
  // True if another user of the owner's group can write to a file in the
  // directory whose own mode lets everybody in.
  static bool NaiveIsReached(const std::string& directory) {
    const std::string path = directory + "/secret";
    WriteFile(path, "s");
    EXPECT_EQ(::chmod(path.c_str(), 0666), 0);
    return As(kAttacker, kNogroup,
              [&] { return ErrnoOfOpening(path, O_RDWR); }) == 0;
  }
};

constexpr char kNaive[] = "/run/mountd/base/a/naive";

TEST_F(UserAttacks, AUserOfTheSameGroupReachesNothingOfAnothers) {
  const std::vector<std::string> all = MakeAll();
  MakeForGroup(kNaive);
  EXPECT_NAIVE(NaiveIsReached(kNaive));
  for (const std::string& path : all) {
    EXPECT_EQ(As(kAttacker, kNogroup, [&] { return ErrnoOfOpening(path); }),
              EACCES)
        << path;
  }
  // Neither the owner's own group nor root's group gets in.
  for (const gid_t group : {gid_t{kOwner}, gid_t{0}}) {
    EXPECT_EQ(As(kAttacker, group, [&] { return ErrnoOfOpening(all[0]); }),
              EACCES);
  }
}

TEST_F(UserAttacks, TheOwnerReachesItWhateverItsGroupAndNamespace) {
  for (const std::string& path : MakeAll()) {
    if (path.ends_with("/app")) {
      continue;  // the owner passes through it and may not list it
    }
    EXPECT_EQ(As(kOwner, kNogroup, [&] { return ErrnoOfOpening(path); }), 0)
        << path;
    EXPECT_EQ(ErrnoOfOpeningAsMappedRoot(kOwner, path), 0) << path;
    EXPECT_EQ(
        As(kSubordinate, kSubordinate, [&] { return ErrnoOfOpening(path); }),
        EACCES)
        << path;
  }
}

// The owner names a group of its subordinate ids, as a task has it in a user
// namespace that does not map the owner. Naively the directory would let
// everybody pass.
TEST_F(UserAttacks, ASubordinateIdPassesByTheGroupThatTheOwnerNamed) {
  config_.rules[0].ids = {{kSubordinate, kSubordinate + 9}};
  const auto prepare = [&](gid_t group) {
    return ErrorOf(Call(PlanKind::kPrepareAllocation, [&](PlanBody* body) {
      body->allocation = {ToWire("db"), kOwner, group};
    }));
  };
  const auto opened = [](uid_t uid, gid_t gid, const std::string& path) {
    return As(uid, gid, [&] { return ErrnoOfOpening(path); });
  };
  std::vector<std::string> all = MakeAll();
  std::erase(all, "/run/mountd/base/a/db/app");  // nobody lists it
  EXPECT_NE(prepare(kNogroup), "") << "no rule grants it";
  ASSERT_EQ(prepare(kSubordinate), "");
  for (const std::string& path : all) {
    EXPECT_EQ(opened(kSubordinate, kSubordinate, path), 0) << path;
    EXPECT_EQ(opened(kOwner, kNogroup, path), 0) << path;
    EXPECT_EQ(opened(kAttacker, kNogroup, path), EACCES) << path;
    EXPECT_EQ(opened(kSubordinate, kSubordinate + 1, path), EACCES) << path;
    EXPECT_EQ(opened(kSubordinate, 0, path), EACCES) << path;
  }
  MakeForGroup(kNaive);
  ASSERT_EQ(::chmod(kNaive, 0711), 0);
  EXPECT_NAIVE(NaiveIsReached(kNaive));
  // A later plan without a group leaves it, also for files written later.
  ASSERT_EQ(prepare(0), "");
  ASSERT_EQ(ErrorOf(Call(PlanKind::kRemoveNetworkFiles,
                         [](PlanBody* body) {
                           body->network_file = {ToWire("db"), kOwner,
                                                 NetworkFileKind::kHosts};
                         })),
            "");
  ASSERT_EQ(ErrorOf(WriteNetworkFile()), "");
  for (const std::string& path : all) {
    EXPECT_EQ(opened(kSubordinate, kSubordinate, path), 0) << path;
  }
  // Another group replaces it.
  ASSERT_EQ(prepare(kSubordinate + 1), "");
  EXPECT_EQ(opened(kSubordinate, kSubordinate, all[0]), EACCES);
  EXPECT_EQ(opened(kSubordinate, kSubordinate + 1, all[0]), 0);
  // The group does not make the directory another user's.
  EXPECT_NE(ErrorOf(Prepare("db", kAttacker)), "");
}

// A task's own path to its inbox begins at its runtime's bind mount, so the
// modes of the directories above do not apply.
TEST_F(UserAttacks, ATaskOfASubordinateIdReachesWhatItsRuntimeHasBound) {
  MakeAll();
  MakeDirectories("/run/task");
  ASSERT_EQ(::mount("/run/mountd/base/a/db/boxed", "/run/task", nullptr,
                    MS_BIND | MS_REC, nullptr),
            0);
  exec::Request attach = AttachRequest("data", exec::Propagation::kPrivate);
  attach.body.attach.target = exec::Target("db", "boxed", "data");
  ASSERT_EQ(ErrorOf(Send(attach)), "");
  EXPECT_EQ(As(kSubordinate, kSubordinate,
               [] { return ErrnoOfOpening("/run/task/data/secret"); }),
            0);
  Unmount("/run/task/data");
  Unmount("/run/task");
}

TEST_F(UserAttacks, TheOwnerDoesNotLetOthersPass) {
  // The naive directory belongs to its owner, and is closed to all others.
  Make(kNaive, 0700, kOwner, kNogroup);
  EXPECT_FALSE(NaiveIsReached(kNaive));
  EXPECT_NAIVE(As(kOwner, kNogroup,
                  [] { return ::chmod(kNaive, 0777) == 0 ? 0 : errno; }) == 0 &&
               NaiveIsReached(kNaive));
  EXPECT_EQ(As(kOwner, kNogroup,
               [] {
                 return ::chmod("/run/mountd/base/a/db", 0777) == 0 ? 0 : errno;
               }),
            EPERM);
  EXPECT_EQ(As(kOwner, kNogroup,
               [] {
                 return ::removexattr("/run/mountd/base/a/db",
                                      "system.posix_acl_access") == 0
                            ? 0
                            : errno;
               }),
            EPERM);
  EXPECT_EQ(As(kOwner, kNogroup,
               [] { return ErrnoOfOpening("/run/mountd/base/a/db"); }),
            EACCES);
}

// An earlier mountd left directories open to a group. The next prepare closes
// them.
TEST_F(UserAttacks, WhatWasLeftOpenToAGroupIsClosed) {
  for (const char* path : {"/run/mountd/base/a/old", "/run/mountd/base/a/old/t",
                           "/run/mountd/base/d/old"}) {
    MakeForGroup(path);
  }
  for (const char* path :
       {"/run/mountd/base/a/old/t/secret", "/run/mountd/base/d/old/hosts"}) {
    WriteFile(path, "s");
    ASSERT_EQ(::chmod(path, 0644), 0);
    EXPECT_NAIVE(
        As(kAttacker, kNogroup, [&] { return ErrnoOfOpening(path); }) == 0);
  }
  ASSERT_EQ(ErrorOf(Prepare("old", kOwner)), "");
  for (const char* path :
       {"/run/mountd/base/a/old/t/secret", "/run/mountd/base/d/old/hosts"}) {
    EXPECT_EQ(As(kAttacker, kNogroup, [&] { return ErrnoOfOpening(path); }),
              EACCES)
        << path;
  }
  // The task's directory stays usable, whatever group its owner has by now.
  exec::Request attach = AttachRequest("data", exec::Propagation::kPrivate);
  attach.body.attach.target = exec::Target("old", "t", "data");
  ASSERT_EQ(ErrorOf(Send(attach)), "");
  EXPECT_EQ(
      As(kOwner, kOwner,
         [] { return ErrnoOfOpening("/run/mountd/base/a/old/t/data/secret"); }),
      0);
}

TEST_F(UserAttacks, NobodyPassesBeforeTheOwnerIsNamed) {
  kernel_.FailAt(0, 0);
  ASSERT_EQ(ErrorOf(Prepare("probe", kOwner)), "");
  const std::vector<std::string> calls = kernel_.calls();
  const auto set = std::find(calls.begin(), calls.end(), "SetAcl");
  ASSERT_NE(set, calls.end());
  kernel_.DieAt(static_cast<std::size_t>(set - calls.begin()) + 1);
  EXPECT_NE(ErrorOf(Prepare("cut", kOwner)), "");
  kernel_.FailAt(0, 0);
  // The naive way makes the directory with the usual mode and is interrupted
  // before it narrows the mode.
  Make(kNaive, 0755, 0, 0);
  EXPECT_NAIVE(NaiveIsReached(kNaive));
  ASSERT_TRUE(Exists("/run/mountd/base/a/cut"));
  for (const uid_t uid : {kAttacker, kOwner}) {
    EXPECT_EQ(As(uid, kNogroup,
                 [] { return ErrnoOfOpening("/run/mountd/base/a/cut/x"); }),
              EACCES);
  }
  ASSERT_EQ(ErrorOf(Prepare("cut", kOwner)), "");
  EXPECT_EQ(As(kOwner, kNogroup,
               [] { return ErrnoOfOpening("/run/mountd/base/a/cut/x"); }),
            ENOENT);
}

// On a kernel without CONFIG_TMPFS_POSIX_ACL the executor serves nothing, and
// says why.
TEST_F(UserAttacks, WithoutListsThereIsNoBase) {
  kernel_.FailAt(0, 0);
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareBase)), "");
  const std::vector<std::string> calls = kernel_.calls();
  const auto read = std::find(calls.begin(), calls.end(), "ReadAcl");
  ASSERT_NE(read, calls.end());
  kernel_.FailAt(static_cast<std::size_t>(read - calls.begin()) + 1,
                 EOPNOTSUPP);
  const Reply reply = Call(PlanKind::kPrepareBase);
  kernel_.FailAt(0, 0);
  EXPECT_EQ(CodeOf(reply), "FailedPrecondition");
  EXPECT_NE(ErrorOf(reply).find("CONFIG_TMPFS_POSIX_ACL"), std::string::npos);
  // The naive way falls back to groups, which such a kernel has.
  MakeForGroup(kNaive);
  EXPECT_NAIVE(NaiveIsReached(kNaive));
}

}  // namespace
}  // namespace mountd::testing
