// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <thread>

#include "mountd/base/number.h"
#include "tests/root/executor_fixture.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using exec::Propagation;
using exec::Reply;

constexpr char kPoint[] = "/run/mountd/base/f/fuse/fs";

// Returns the start of a file, or the error's text, because the file may belong
// to a process that ends.
std::string StartOf(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> text{};
  const ssize_t size =
      fd.valid() ? ::read(fd.get(), text.data(), text.size()) : -1;
  return size < 0 ? ::strerror(errno)
                  : std::string(text.data(), static_cast<std::size_t>(size));
}

// Returns the processes of this mount namespace that have the mount point as an
// argument.
std::vector<pid_t> ServersOf(const std::string& point) {
  struct stat own = {};
  ::stat("/proc/self/ns/mnt", &own);
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const auto pid = ParseNumber<pid_t>(entry.path().filename().string());
    if (!pid) {
      continue;
    }
    const std::string line = StartOf(entry.path() / "cmdline");
    struct stat of = {};
    if (line.find(point) != std::string::npos &&
        ::stat((entry.path() / "ns/mnt").c_str(), &of) == 0 &&
        of.st_ino == own.st_ino) {
      found.push_back(*pid);
    }
  }
  return found;
}

bool Becomes(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

class Filesystems : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    PrepareBase();
    MakeImage("/run/host/image");
    const std::vector<Propagation> all = {Propagation::kPrivate,
                                          Propagation::kHostToTask,
                                          Propagation::kBidirectional};
    config_.filesystems["image"] = {"ext4", "/run/host/image", {}, false, all};
    config_.filesystems["fuse"] = {
        "fuse.bindfs", "/run/host/data", {"allow_other"}, false, all};
    before_ = Inventory::Take();
  }
  void TearDown() override {
    for (const pid_t pid :
         IsSkipped() ? std::vector<pid_t>() : ServersOf(kPoint)) {
      ::kill(pid, SIGKILL);
    }
    ExecutorFixture::TearDown();
  }
  Reply AttachFilesystem(const std::string& name,
                         Propagation mode = Propagation::kPrivate) {
    return Send(FilesystemRequest(name, mode));
  }
  Reply AttachAs(const std::string& name, Propagation mode,
                 std::uint64_t replaces = 0) {
    exec::Request request = FilesystemRequest("fuse", mode);
    request.body.attach.target = exec::Target("web", "app", name);
    request.body.attach.replaces = replaces;
    return Send(request);
  }
  static void KillServer() {
    const std::vector<pid_t> servers = ServersOf(kPoint);
    ASSERT_EQ(servers.size(), 1U);
    ASSERT_EQ(::kill(servers[0], SIGKILL), 0);
    ASSERT_TRUE(Becomes([] { return ServersOf(kPoint).empty(); }));
  }
  // Detaches and releases. Returns their errors and the rest that is left.
  std::string Undo(const std::string& name, const Reply& reply) {
    const std::string detached = ErrorOf(Detach(reply.body.mount.mount_id));
    const std::string released =
        ErrorOf(ReleaseFilesystem(name, reply.body.mount.anchor_id));
    return detached + released + DifferenceWithin(before_, 10);
  }
  static void MountLate() {
    const std::string dir = "/run/mountd/base/f/image";
    MakeDirectories(dir + "/fs");
    ASSERT_EQ(::chmod(dir.c_str(), 0700), 0);
    ASSERT_EQ(::chmod((dir + "/fs").c_str(), 0700), 0);
    MountTmpfs(dir + "/fs");
  }
  // Makes every call of bindfs run this script instead.
  void ReplaceBindfs(const std::string& script) {
    WriteFile("/run/bindfs", "#!/bin/sh\n" + script + "\n");
    ASSERT_EQ(::chmod("/run/bindfs", 0755), 0);
    ASSERT_EQ(
        ::mount("/run/bindfs", "/usr/bin/bindfs", nullptr, MS_BIND, nullptr),
        0);
    before_ = Inventory::Take();
  }

  Inventory before_;
};

TEST_F(Filesystems, AnImageIsMountedForItsUsersAndGoesWithTheLast) {
  for (const Propagation mode :
       {Propagation::kPrivate, Propagation::kHostToTask,
        Propagation::kBidirectional}) {
    const Reply reply = AttachFilesystem("image", mode);
    ASSERT_EQ(ErrorOf(reply), "");
    EXPECT_NE(reply.body.mount.anchor_id, 0U);
    EXPECT_NE(reply.body.mount.source_peer_group, 0U);
    EXPECT_TRUE(Exists(std::string(kTarget) + "/mark"));
    struct statvfs st = {};
    ASSERT_EQ(::statvfs("/run/mountd/base/f/image/fs", &st), 0);
    EXPECT_NE(st.f_flag & ST_NOSUID, 0U);
    EXPECT_NE(st.f_flag & ST_NODEV, 0U);
    EXPECT_EQ(Undo("image", reply), "");
  }
}

TEST_F(Filesystems, SquashfsAndReadOnly) {
  ASSERT_EQ(std::system("mksquashfs /run/host/data /run/host/squash "
                        "-quiet -no-progress >/dev/null 2>&1"),
            0);
  config_.filesystems["squash"] = {"squashfs", "/run/host/squash"};
  before_ = Inventory::Take();
  Reply reply = AttachFilesystem("squash");
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_TRUE(Exists(std::string(kTarget) + "/file"));
  EXPECT_EQ(Undo("squash", reply), "");
  config_.filesystems["image"].read_only = true;
  reply = AttachFilesystem("image");
  ASSERT_EQ(ErrorOf(reply), "");
  for (const char* path : {kTarget, "/run/mountd/base/f/image/fs"}) {
    struct statvfs st = {};
    ASSERT_EQ(::statvfs(path, &st), 0);
    EXPECT_NE(st.f_flag & ST_RDONLY, 0U) << path;
  }
  EXPECT_EQ(Undo("image", reply), "");
}

TEST_F(Filesystems, AllUsersHaveClonesOfOneMount) {
  const Reply one = AttachFilesystem("image");
  ASSERT_EQ(ErrorOf(one), "");
  exec::Request request = FilesystemRequest("image", Propagation::kHostToTask);
  request.body.attach.target = exec::Target("web", "app", "other");
  const Reply two = Send(request);
  ASSERT_EQ(ErrorOf(two), "");
  EXPECT_EQ(one.body.mount.anchor_id, two.body.mount.anchor_id);
  EXPECT_EQ(ErrorOf(Detach(two.body.mount.mount_id, "other")), "");
  EXPECT_EQ(Undo("image", one), "");
}

TEST_F(Filesystems, OneThatIsHeldIsBusy) {
  const Reply reply = AttachFilesystem("image");
  ASSERT_EQ(ErrorOf(reply), "");
  UniqueFd held(
      ::open("/run/mountd/base/f/image/fs/mark", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  EXPECT_EQ(CodeOf(ReleaseFilesystem("image", 0)), "Busy");
  held.reset();
  EXPECT_EQ(ErrorOf(ReleaseFilesystem("image", reply.body.mount.anchor_id)),
            "");
  EXPECT_EQ(ErrorOf(ReleaseFilesystem("image", reply.body.mount.anchor_id)),
            "");
  EXPECT_EQ(DifferenceWithin(before_, 10), "");
}

TEST_F(Filesystems, IsReleasedThoughItIsDeclaredNoLonger) {
  const Reply reply = AttachFilesystem("image");
  ASSERT_EQ(ErrorOf(reply), "");
  config_.filesystems.clear();
  EXPECT_EQ(Undo("image", reply), "");
}

TEST_F(Filesystems, DeclaredOtherwiseItIsNotMixed) {
  const Reply reply = AttachFilesystem("image");
  ASSERT_EQ(ErrorOf(reply), "");
  config_.filesystems["image"].options = {"noatime"};
  exec::Request request = FilesystemRequest("image");
  request.body.attach.target = exec::Target("web", "app", "other");
  EXPECT_EQ(CodeOf(Send(request)), "FailedPrecondition");
  EXPECT_EQ(Undo("image", reply), "");
  const Reply again = AttachFilesystem("image");
  EXPECT_EQ(ErrorOf(again), "");
  EXPECT_EQ(Undo("image", again), "");
}

TEST_F(Filesystems, WhatCannotBeMountedLeavesNothing) {
  config_.filesystems["missing"] = {"ext4", "/run/host/nothing"};
  config_.filesystems["garbage"] = {"ext4", "/run/host/data/file"};
  config_.filesystems["other"] = {"xfs", "/run/host/image"};
  config_.filesystems["server"] = {"fuse.no-such-server", "x"};
  for (const char* name : {"missing", "garbage", "other", "server"}) {
    EXPECT_NE(CodeOf(AttachFilesystem(name)), "") << name;
    EXPECT_EQ(DifferenceWithin(before_, 10), "") << name;
  }
  EXPECT_EQ(CodeOf(AttachFilesystem("nowhere")), "NotFound");
  config_.filesystems["image"].propagation = {Propagation::kPrivate};
  EXPECT_EQ(CodeOf(AttachFilesystem("image", Propagation::kHostToTask)),
            "PermissionDenied");
  EXPECT_EQ(DifferenceWithin(before_, 10), "");
}

TEST_F(Filesystems, AFuseServerRunsOnAndEndsWithItsMount) {
  ::setenv("TOLD_TO_THE_EXECUTOR", "1", 1);
  const Reply reply = AttachFilesystem("fuse");
  ASSERT_EQ(ErrorOf(reply), "");
  const std::vector<pid_t> servers = ServersOf(kPoint);
  ASSERT_EQ(servers.size(), 1U);
  // The server has a session of its own, and none of the executor's fds.
  EXPECT_NE(::getsid(servers[0]), ::getsid(0));
  for (const auto& entry :
       fs::directory_iterator("/proc/" + std::to_string(servers[0]) + "/fd")) {
    const std::string target = fs::read_symlink(entry.path()).string();
    EXPECT_EQ(target.find("/run/mountd"), std::string::npos) << target;
    EXPECT_EQ(target.find("socket"), std::string::npos) << target;
  }
  std::ifstream environment("/proc/" + std::to_string(servers[0]) + "/environ");
  const std::string text((std::istreambuf_iterator<char>(environment)), {});
  EXPECT_EQ(text.find("TOLD_TO_THE_EXECUTOR"), std::string::npos);
  EXPECT_NE(text.find("PATH="), std::string::npos);
  std::ifstream content(std::string(kTarget) + "/file");
  EXPECT_EQ(std::string((std::istreambuf_iterator<char>(content)), {}),
            "content");
  content.close();
  EXPECT_EQ(Undo("fuse", reply), "");
  EXPECT_TRUE(Becomes([] { return ServersOf(kPoint).empty(); }));
}

TEST_F(Filesystems, OneWhoseServerHangsCanBeUsedAndReleased) {
  config_.timeouts.probe_answer = std::chrono::milliseconds(100);
  const Reply reply = AttachFilesystem("fuse");
  ASSERT_EQ(ErrorOf(reply), "");
  const std::vector<pid_t> servers = ServersOf(kPoint);
  ASSERT_EQ(servers.size(), 1U);
  ASSERT_EQ(::kill(servers[0], SIGSTOP), 0);
  exec::Request request = FilesystemRequest("fuse", Propagation::kHostToTask);
  request.body.attach.target = exec::Target("web", "app", "other");
  const Reply other = Send(request);
  EXPECT_EQ(ErrorOf(other), "");
  EXPECT_EQ(ErrorOf(Detach(other.body.mount.mount_id, "other")), "");
  EXPECT_EQ(Undo("fuse", reply), "");
  ::kill(servers[0], SIGKILL);
}

TEST_F(Filesystems, OneWhoseServerDiedCanBeReleased) {
  const Reply reply = AttachFilesystem("fuse");
  ASSERT_EQ(ErrorOf(reply), "");
  KillServer();
  EXPECT_EQ(Undo("fuse", reply), "");
}

std::string ContentOf(const std::string& name) {
  return StartOf("/run/mountd/base/a/web/app/" + name + "/file");
}

TEST_F(Filesystems, OneWhoseServerDiedIsMountedAnewUnderEachOfItsUsers) {
  if (!real_.CanMountBeneath()) {
    GTEST_SKIP() << "this kernel cannot mount beneath (Linux 6.5)";
  }
  constexpr char kDead[] = "Transport endpoint is not connected";
  const std::map<std::string, Propagation> users = {
      {"private", Propagation::kPrivate},
      {"slave", Propagation::kHostToTask},
      {"shared", Propagation::kBidirectional}};
  std::map<std::string, Reply> old;
  for (const auto& [name, mode] : users) {
    old[name] = AttachAs(name, mode);
    ASSERT_EQ(ErrorOf(old[name]), "");
  }
  KillServer();
  std::uint64_t anchor = 0;
  for (auto user = users.begin(); user != users.end(); ++user) {
    const auto& [name, mode] = *user;
    SCOPED_TRACE(name);
    EXPECT_EQ(ContentOf(name), kDead);
    const Reply now = AttachAs(name, mode, old[name].body.mount.mount_id);
    ASSERT_EQ(ErrorOf(now), "");
    EXPECT_EQ(ContentOf(name), "content");
    EXPECT_NE(now.body.mount.anchor_id, old[name].body.mount.anchor_id);
    EXPECT_TRUE(anchor == 0 || anchor == now.body.mount.anchor_id);
    anchor = now.body.mount.anchor_id;
    for (auto later = std::next(user); later != users.end(); ++later) {
      EXPECT_EQ(ContentOf(later->first), kDead);
    }
    old[name] = now;
  }
  EXPECT_EQ(ServersOf(kPoint).size(), 1U);
  const Reply next = AttachAs("next", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(next), "");
  EXPECT_EQ(next.body.mount.anchor_id, anchor);
  for (const auto& [name, reply] : old) {
    EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id, name)), "");
  }
  EXPECT_EQ(ErrorOf(Detach(next.body.mount.mount_id, "next")), "");
  EXPECT_EQ(ErrorOf(ReleaseFilesystem("fuse", anchor)), "");
  EXPECT_EQ(DifferenceWithin(before_, 10), "");
  EXPECT_TRUE(Becomes([] { return ServersOf(kPoint).empty(); }));
}

TEST_F(Filesystems, ADeadOneStaysWhereTheKernelCannotReplaceAMount) {
  kernel_.HideMountBeneath();
  const Reply old = AttachAs("data", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(old), "");
  KillServer();
  const Inventory dead = Inventory::Take();
  EXPECT_EQ(
      CodeOf(AttachAs("data", Propagation::kPrivate, old.body.mount.mount_id)),
      "NotSupported");
  EXPECT_EQ(Difference(dead, Inventory::Take()), "");
  EXPECT_EQ(Undo("fuse", old), "");
}

TEST_F(Filesystems, WhatUsersOfADeadOneMountedInItStaysTheirs) {
  if (!real_.CanMountBeneath()) {
    GTEST_SKIP() << "this kernel cannot mount beneath (Linux 6.5)";
  }
  const Reply one = AttachAs("one", Propagation::kBidirectional);
  const Reply two = AttachAs("two", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(one) + ErrorOf(two), "");
  const std::string below = "/run/mountd/base/a/web/app/one/sub";
  fs::create_directory(below);
  MountTmpfs(below);
  const UniqueFd held(::open(below.c_str(), O_PATH | O_CLOEXEC));
  KillServer();
  const Reply now =
      AttachAs("two", Propagation::kPrivate, two.body.mount.mount_id);
  ASSERT_EQ(ErrorOf(now), "");
  EXPECT_EQ(ContentOf("two"), "content");
  struct statx facts = {};
  ASSERT_EQ(::statx(held.get(), "", AT_EMPTY_PATH, STATX_MNT_ID, &facts), 0);
  std::ifstream mountinfo("/proc/self/mountinfo");
  const std::string all((std::istreambuf_iterator<char>(mountinfo)), {});
  EXPECT_NE(all.find("\n" + std::to_string(facts.stx_mnt_id) + " "),
            std::string::npos);
}

// The executor unmounts the dead file system first, because nobody could use it
// any more. A later plan can then mount it again.
TEST_F(Filesystems, OneThatCannotBeMountedAnewIsTriedAgain) {
  if (!real_.CanMountBeneath()) {
    GTEST_SKIP() << "this kernel cannot mount beneath (Linux 6.5)";
  }
  const Reply old = AttachAs("data", Propagation::kHostToTask);
  ASSERT_EQ(ErrorOf(old), "");
  KillServer();
  ReplaceBindfs("exit 1");
  const std::uint64_t id = old.body.mount.mount_id;
  EXPECT_EQ(CodeOf(AttachAs("data", Propagation::kHostToTask, id)),
            "Unavailable");
  ASSERT_EQ(::umount2("/usr/bin/bindfs", MNT_DETACH), 0);
  const Reply now = AttachAs("data", Propagation::kHostToTask, id);
  ASSERT_EQ(ErrorOf(now), "");
  EXPECT_EQ(ContentOf("data"), "content");
  EXPECT_EQ(ErrorOf(Detach(now.body.mount.mount_id)), "");
  EXPECT_EQ(ErrorOf(ReleaseFilesystem("fuse", 0)), "");
}

TEST_F(Filesystems, EachCallOfARepairMayFailOrBeTheLast) {
  if (!real_.CanMountBeneath()) {
    GTEST_SKIP() << "this kernel cannot mount beneath (Linux 6.5)";
  }
  for (const int error : exec::kEndOrErrorsOfAnyCall) {
    bool reached = true;
    for (std::size_t k = 1; reached; ++k) {
      SCOPED_TRACE("call " + std::to_string(k) + ", errno " +
                   std::to_string(error));
      const Reply old = AttachAs("data", Propagation::kHostToTask);
      ASSERT_EQ(ErrorOf(old), "");
      KillServer();
      const std::uint64_t id = old.body.mount.mount_id;
      kernel_.FailOrDieAt(k, error);
      AttachAs("data", Propagation::kHostToTask, id);
      reached = kernel_.calls().size() >= k;
      kernel_.FailAt(0, 0);
      const Reply now = AttachAs("data", Propagation::kHostToTask, id);
      ASSERT_EQ(ErrorOf(now), "");
      EXPECT_EQ(ContentOf("data"), "content");
      EXPECT_EQ(ErrorOf(Detach(now.body.mount.mount_id)), "");
      EXPECT_EQ(ErrorOf(ReleaseFilesystem("fuse", 0)), "");
      ASSERT_EQ(DifferenceWithin(before_, 10), "");
      ASSERT_TRUE(Becomes([] { return ServersOf(kPoint).empty(); }));
    }
  }
}

TEST_F(Filesystems, AHelperThatNeverEndsIsKilledInTime) {
  config_.timeouts.plan = std::chrono::milliseconds(400);
  ReplaceBindfs("sleep 1000 # $2");
  EXPECT_EQ(CodeOf(AttachFilesystem("fuse")), "DeadlineExceeded");
  EXPECT_EQ(DifferenceWithin(before_, 10), "");
  EXPECT_TRUE(Becomes([] { return ServersOf(kPoint).empty(); }));
}

TEST_F(Filesystems, WhatAKilledHelperHasMountedIsUndone) {
  config_.timeouts.plan = std::chrono::milliseconds(2000);
  ReplaceBindfs("mount -n -t tmpfs naughty \"$2\"; sleep 1000");
  EXPECT_EQ(CodeOf(AttachFilesystem("fuse")), "DeadlineExceeded");
  EXPECT_EQ(DifferenceWithin(before_, 10), "");
}

TEST_F(Filesystems, WhatAHelperMountsInsteadIsUndone) {
  ReplaceBindfs("exec mount -n -t tmpfs naughty \"$2\"");
  EXPECT_EQ(CodeOf(AttachFilesystem("fuse")), "FailedPrecondition");
  EXPECT_EQ(DifferenceWithin(before_, 10), "");
  EXPECT_EQ(::umount2("/usr/bin/bindfs", MNT_DETACH), 0);
  ReplaceBindfs("exit 1");
  EXPECT_EQ(CodeOf(AttachFilesystem("fuse")), "Unavailable");
  EXPECT_EQ(DifferenceWithin(before_, 10), "");
}

// The mount comes late, as from a helper of a plan that mountd has given up.
TEST_F(Filesystems, WhatWasMountedLateIsTakenAway) {
  const Reply reply = AttachFilesystem("image");
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(Undo("image", reply), "");
  MountLate();
  const Reply again = AttachFilesystem("image");
  ASSERT_EQ(ErrorOf(again), "");
  EXPECT_TRUE(Exists(std::string(kTarget) + "/lost+found"));
  EXPECT_EQ(Undo("image", again), "");
  MountLate();
  EXPECT_EQ(ErrorOf(ReleaseFilesystem("image", 0)), "");
  EXPECT_EQ(DifferenceWithin(before_, 10), "");
}

TEST_F(Filesystems, UpToEightThatWereMountedLateAreTakenAwayAtOnce) {
  const auto stack = [](int count) {
    for (int i = 0; i < count; ++i) {
      MountLate();
    }
  };
  stack(8);
  const Reply reply = AttachFilesystem("image");
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(Undo("image", reply), "");
  stack(8);
  EXPECT_EQ(ErrorOf(ReleaseFilesystem("image", 0)), "");
  EXPECT_EQ(DifferenceWithin(before_, 10), "");
  stack(9);
  EXPECT_EQ(CodeOf(ReleaseFilesystem("image", 0)), "Aborted");
  EXPECT_EQ(ErrorOf(ReleaseFilesystem("image", 0)), "");
  EXPECT_EQ(DifferenceWithin(before_, 10), "");
}

}  // namespace
}  // namespace mountd::testing
