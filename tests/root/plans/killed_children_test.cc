// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A process that the executor has started may be killed, for example by the
// kernel when memory is short. Here each child is killed right before each
// system call that matters. The plan must fail with an error that says so,
// leave nothing, and succeed when it is made again.
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "mountd/base/number.h"
#include "tests/root/container_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/killed_child.h"

namespace mountd::testing {
namespace {

using exec::MountHealth;
using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;
using exec::Request;

// A child makes this call last, after all its work.
constexpr long kAtItsEnd = SYS_exit_group;

using Calls = std::map<std::string, long>;  // by name

// The calls of the executor's own code in the child, before it starts its work.
const Calls kFirst = {{"at once", KilledChild::kAtOnce},
                      {"prctl", SYS_prctl},
                      {"close_range", SYS_close_range}};
Calls And(const Calls& more) {
  Calls calls = kFirst;
  calls.insert(more.begin(), more.end());
  return calls;
}

// True if this process has no child, neither running nor a zombie.
bool HasNoChild() {
  siginfo_t ignored = {};
  return ::waitid(P_ALL, 0, &ignored, WEXITED | WNOHANG | WNOWAIT) < 0 &&
         errno == ECHILD;
}

// Makes `plan` with its child killed at each of `calls`, and once more without;
// `undo` undoes the plan that succeeded.
void KillAtEach(const Calls& calls, const std::function<Reply()>& plan,
                const std::function<void(const Reply&)>& undo) {
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE("killed at " + name);
    const Inventory before = Inventory::Take();
    {
      const KilledChild killed(call);
      const Reply reply = plan();
      EXPECT_EQ(CodeOf(reply), "Unavailable") << ErrorOf(reply);
      EXPECT_NE(ErrorOf(reply).find("something other than mountd killed"),
                std::string::npos)
          << ErrorOf(reply);
    }
    ASSERT_EQ(DifferenceWithin(before, 10), "");
    const Reply reply = plan();
    ASSERT_EQ(ErrorOf(reply), "");
    undo(reply);
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
}

// ---- The child of a map of ids ----

class KilledMapMaker : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    MoveHostToExt4();
    PrepareBase();
    config_.rules[0].ids = {{1000, 60000}};
  }
  // Returns a plan with a map that no plan had before, because the executor
  // makes each map once.
  Request NewMap() {
    Request request = AttachRequest("data", Propagation::kPrivate);
    request.body.attach.ids.count = 1;
    request.body.attach.ids.extents[0] = {1000 + ++maps_, 200000, 1};
    return request;
  }
  std::uint32_t maps_ = 0;
};

TEST_F(KilledMapMaker, LeavesNothingAndTheNextOneIsMade) {
  const auto attach = [&] { return Send(NewMap()); };
  const auto detach = [&](const Reply& reply) {
    ASSERT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
    ASSERT_EQ(ErrorOf(ReleaseHostVolume("data", reply.body.mount.anchor_id)),
              "");
  };
  KillAtEach(And({{"unshare", SYS_unshare},
                  {"openat", SYS_openat},
                  {"sendmsg", SYS_sendmsg}}),
             attach, detach);
  EXPECT_TRUE(HasNoChild());
}

// ---- The child of a probe ----

class KilledProbe : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    PrepareBase();
    mount_ = Attach("data", Propagation::kPrivate);
    ASSERT_EQ(ErrorOf(mount_), "");
  }
  Reply Probe() {
    return Call(PlanKind::kProbeMount, [&](PlanBody* body) {
      body->probe = {exec::Target("web", "app", "data"),
                     mount_.body.mount.mount_id};
    });
  }
  Reply mount_;
};

// A probe that was killed must not report the mount as dead.
TEST_F(KilledProbe, SaysNothingOfTheMount) {
  KillAtEach(
      And({{"fstatfs", SYS_fstatfs}, {"its end", kAtItsEnd}}),
      [&] { return Probe(); },
      [](const Reply& reply) {
        EXPECT_EQ(reply.body.probe.health, MountHealth::kHealthy);
        EXPECT_EQ(reply.body.probe.lost_children, 0U);
      });
  EXPECT_TRUE(HasNoChild());
}

// ---- The child that mounts as mount(8) does, and file systems' helpers ----

// Returns the processes of that name that see this test's mounts.
std::vector<pid_t> ProcessesOf(const std::string& name) {
  namespace fs = std::filesystem;
  std::vector<pid_t> found;
  std::error_code gone;
  const fs::path own = fs::read_symlink("/proc/self/ns/mnt", gone);
  for (const auto& entry : fs::directory_iterator("/proc", gone)) {
    const auto pid = ParseNumber<pid_t>(entry.path().filename().string());
    std::ifstream comm(entry.path() / "comm");
    std::string line;
    if (pid && std::getline(comm, line) && line == name &&
        fs::read_symlink(entry.path() / "ns/mnt", gone) == own) {
      found.push_back(*pid);
    }
  }
  return found;
}

class KilledHelper : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    PrepareBase();
    MakeImage("/run/host/image");
    config_.filesystems["image"] = {
        "ext4", "/run/host/image", {}, false, {Propagation::kPrivate}};
    config_.filesystems["fuse"] = {"fuse.bindfs",
                                   "/run/host/data",
                                   {"allow_other"},
                                   false,
                                   {Propagation::kPrivate}};
  }
  void TearDown() override {
    for (const pid_t pid :
         IsSkipped() ? std::vector<pid_t>() : ProcessesOf("bindfs")) {
      ::kill(pid, SIGKILL);
    }
    ExecutorFixture::TearDown();
  }
  void KillAtEachMount(const std::string& name, const Calls& calls) {
    const Inventory before = Inventory::Take();
    KillAtEach(
        calls, [&] { return Send(FilesystemRequest(name)); },
        [&](const Reply& reply) {
          ASSERT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
          ASSERT_EQ(
              ErrorOf(ReleaseFilesystem(name, reply.body.mount.anchor_id)), "");
          ASSERT_EQ(DifferenceWithin(before, 10), "");
        });
    EXPECT_TRUE(HasNoChild());
  }
  // Makes every call of bindfs run this script instead.
  static void ReplaceBindfs(const std::string& script) {
    WriteFile("/run/bindfs", "#!/bin/sh\n" + script + "\n");
    ASSERT_EQ(::chmod("/run/bindfs", 0755), 0);
    ASSERT_EQ(
        ::mount("/run/bindfs", "/usr/bin/bindfs", nullptr, MS_BIND, nullptr),
        0);
  }
  static void RestoreBindfs() {
    ASSERT_EQ(::umount2("/usr/bin/bindfs", MNT_DETACH), 0);
    ASSERT_EQ(::unlink("/run/bindfs"), 0);
  }
};

TEST_F(KilledHelper, OfAnImageLeavesNothing) {
  KillAtEachMount("image", And({{"setsid", SYS_setsid},
                                {"chdir", SYS_chdir},
                                {"its end", kAtItsEnd}}));
}

TEST_F(KilledHelper, OfAFuseServerLeavesNothing) {
  KillAtEachMount("fuse", And({{"setsid", SYS_setsid},
                               {"chdir", SYS_chdir},
                               {"its end", kAtItsEnd}}));
}

// The helper is a child of the executor's mounting child, which reports the
// helper's end. The helper kills itself at a known place: "$1" is the source,
// "$2" the target.
TEST_F(KilledHelper, ThatIsAProgramLeavesNothing) {
  const Inventory before = Inventory::Take();
  for (const char* script :
       {"kill -KILL $$", "mount -n -t tmpfs late \"$2\"; kill -KILL $$"}) {
    SCOPED_TRACE(script);
    ReplaceBindfs(script);
    const Reply reply = Send(FilesystemRequest("fuse"));
    EXPECT_EQ(CodeOf(reply), "Unavailable") << ErrorOf(reply);
    RestoreBindfs();
    ASSERT_EQ(DifferenceWithin(before, 10), "");
    const Reply next = Send(FilesystemRequest("fuse"));
    ASSERT_EQ(ErrorOf(next), "");
    ASSERT_EQ(ErrorOf(Detach(next.body.mount.mount_id)), "");
    ASSERT_EQ(ErrorOf(ReleaseFilesystem("fuse", next.body.mount.anchor_id)),
              "");
    ASSERT_EQ(DifferenceWithin(before, 10), "");
  }
}

// The mounting child is killed while its helper works. The helper must end,
// too, because it would mount when nobody expects a mount any more.
TEST_F(KilledHelper, EndsWithWhoStartedIt) {
  const Inventory before = Inventory::Take();
  // The script kills the leader of the session that the executor made for the
  // child.
  ReplaceBindfs(
      "read -r pid comm state parent group session rest </proc/$$/stat\n"
      "kill -KILL $session\n"
      "while [ -e /run/bindfs ]; do :; done\n"
      "mount -n -t tmpfs late \"$2\"");
  const Reply reply = Send(FilesystemRequest("fuse"));
  EXPECT_EQ(CodeOf(reply), "Unavailable") << ErrorOf(reply);
  EXPECT_TRUE(Eventually([] { return ProcessesOf("bindfs").empty(); }))
      << "the helper goes on";
  RestoreBindfs();
  ASSERT_EQ(DifferenceWithin(before, 10), "");
  const Reply next = Send(FilesystemRequest("fuse"));
  ASSERT_EQ(ErrorOf(next), "");
  ASSERT_EQ(ErrorOf(Detach(next.body.mount.mount_id)), "");
  ASSERT_EQ(ErrorOf(ReleaseFilesystem("fuse", next.body.mount.anchor_id)), "");
  ASSERT_EQ(DifferenceWithin(before, 10), "");
}

// ---- The child that is in a container ----

class KilledInContainer : public ContainerFixture {};

TEST_F(KilledInContainer, LeavesNothingThere) {
  const std::string empty = MountsOf(*container_);
  // The kept mount keeps the anchor, so the host is the same before and after.
  ASSERT_EQ(ErrorOf(Attach("data", Propagation::kPrivate, "kept")), "");
  const Inventory before = Inventory::Take();
  for (const auto& [name, call] : And({{"setns", SYS_setns},
                                       {"move_mount", SYS_move_mount},
                                       {"its end", kAtItsEnd}})) {
    SCOPED_TRACE("killed at " + name);
    {
      const KilledChild killed(call);
      const Reply reply = AttachTo(*container_, Propagation::kPrivate);
      EXPECT_EQ(CodeOf(reply), "Unavailable") << ErrorOf(reply);
    }
    ASSERT_EQ(MountsOf(*container_), empty);
    ASSERT_EQ(Difference(before, Inventory::Take()), "");
    const Reply reply = AttachTo(*container_, Propagation::kPrivate);
    ASSERT_EQ(ErrorOf(reply), "");
    ASSERT_TRUE(Sees(*container_, "/data/file"));
    ASSERT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
    ASSERT_EQ(MountsOf(*container_), empty);
  }
}

// Two children work: the first finds the mount, the second unmounts it in the
// container.
TEST_F(KilledInContainer, ADetachCanBeMadeAgain) {
  const std::string empty = MountsOf(*container_);
  for (const int nth : {1, 2}) {
    for (const auto& [name, call] : And({{"setns", SYS_setns},
                                         {"statx", SYS_statx},
                                         {"umount2", SYS_umount2},
                                         {"its end", kAtItsEnd}})) {
      if (nth == 1 && call == SYS_umount2) {
        continue;
      }
      SCOPED_TRACE("child " + std::to_string(nth) + " killed at " + name);
      const Reply reply = AttachTo(*container_, Propagation::kPrivate);
      ASSERT_EQ(ErrorOf(reply), "");
      {
        const KilledChild killed(call, nth);
        const Reply cut_off = Detach(reply.body.mount.mount_id);
        EXPECT_EQ(CodeOf(cut_off), "Unavailable") << ErrorOf(cut_off);
      }
      ASSERT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
      ASSERT_EQ(MountsOf(*container_), empty);
    }
  }
}

// ---- systemd-run ----

class KilledSystemdRun : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    PluginConfig plugin;
    plugin.type = "node";
    plugin.command = {"/opt/csi/driver"};
    plugin.restart = "on-failure";
    config_.plugins.emplace("csi", plugin);
    MakeDirectories("/run/systemd/system");
    for (const char* name : {"systemctl", "systemd-run"}) {
      const std::string path = std::string("/run/") + name;
      WriteFile(path, "#!/bin/sh\nexit 0\n");
      ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
      const std::string real = std::string("/usr/bin/") + name;
      if (::mount(path.c_str(), real.c_str(), nullptr, MS_BIND, nullptr) != 0) {
        GTEST_SKIP() << "there is no " << real << " to be covered";
      }
    }
  }
  Reply Plan(PlanKind kind) {
    return Call(kind,
                [](PlanBody* body) { body->plugin = {exec::ToWire("csi")}; });
  }
};

TEST_F(KilledSystemdRun, IsStartedAgainByTheNextPlan) {
  const Calls calls = And(
      {{"setsid", SYS_setsid}, {"execve", SYS_execve}, {"its end", kAtItsEnd}});
  for (const PlanKind kind : {PlanKind::kStartPlugin, PlanKind::kStopPlugin}) {
    KillAtEach(
        calls, [&] { return Plan(kind); }, [](const Reply&) {});
  }
  EXPECT_TRUE(HasNoChild());
}

}  // namespace
}  // namespace mountd::testing
