// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The plans that report whether mounts are there, and answer.
#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "tests/root/executor_fixture.h"
#include "tests/support/servers/fuse_server.h"

namespace mountd::testing {
namespace {

using exec::MountHealth;
using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;

class MountHealthPlans : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    config_.timeouts.probe_answer = std::chrono::milliseconds(300);
    config_.host_volumes["fuse"] = {
        "/run/host/fuse", false, {Propagation::kPrivate}};
    MakeDirectories("/run/host/fuse");
    MakeDirectories("/run/host/x");
    PrepareBase();
  }

  Reply Probe(std::uint64_t mount_id, const std::string& name = "data") {
    return Call(PlanKind::kProbeMount, [&](PlanBody* body) {
      body->probe = {exec::Target("web", "app", name), mount_id};
    });
  }
  // Returns the changes that the answer's fd reports.
  short Events(bool tells_ids) const {
    const short change = tells_ids ? POLLIN : POLLPRI;
    pollfd entry = {last_fd_.get(), change, 0};
    ::poll(&entry, 1, 0);
    return static_cast<short>(entry.revents & change);
  }
  void ExpectToSeeChanges(const Reply& watch) {
    const bool tells_ids = watch.body.watch.tells_ids != 0;
    // The fd works without the executor.
    dispatcher_.reset();
    std::array<char, 4096> ignored{};
    EXPECT_EQ(Events(tells_ids), 0);
    for (int i = 0; i < 3; ++i) {
      MountTmpfs("/run/host/x");
      EXPECT_NE(Events(tells_ids), 0);
      if (tells_ids) {
        EXPECT_GT(::read(last_fd_.get(), ignored.data(), ignored.size()), 0);
      }
      EXPECT_EQ(Events(tells_ids), 0);
      Unmount("/run/host/x");
      EXPECT_NE(Events(tells_ids), 0);
      if (tells_ids) {
        EXPECT_GT(::read(last_fd_.get(), ignored.data(), ignored.size()), 0);
      }
    }
  }
  std::vector<std::uint64_t> IdsOf(const Reply& list) const {
    std::vector<std::uint64_t> ids(list.body.mount_list.count);
    const auto size = static_cast<ssize_t>(ids.size() * sizeof(ids[0]));
    EXPECT_EQ(
        ::pread(last_fd_.get(), ids.data(), static_cast<std::size_t>(size), 0),
        size);
    return ids;
  }
};

std::size_t LinesOf(const char* path) {
  std::ifstream file(path);
  return static_cast<std::size_t>(
      std::count(std::istreambuf_iterator<char>(file), {}, '\n'));
}

TEST_F(MountHealthPlans, AWatchOutlivesItsExecutor) {
  const Reply watch = Call(PlanKind::kWatchMounts);
  ASSERT_EQ(ErrorOf(watch), "");
  ExpectToSeeChanges(watch);
}

TEST_F(MountHealthPlans, AWatchOnAnOlderKernelIsMountinfo) {
  kernel_.HideMountEvents();
  const Reply watch = Call(PlanKind::kWatchMounts);
  ASSERT_EQ(ErrorOf(watch), "");
  EXPECT_EQ(watch.body.watch.tells_ids, 0U);
  ExpectToSeeChanges(watch);
}

TEST_F(MountHealthPlans, AllMountsAreListed) {
  for (const bool old_kernel : {false, true}) {
    if (old_kernel) {
      kernel_.HideUniqueMountIds();
      dispatcher_.emplace(kernel_, config_);
    }
    const std::string name = old_kernel ? "old" : "new";
    const Reply mount = Attach("data", Propagation::kPrivate, name);
    ASSERT_EQ(ErrorOf(mount), "");
    const Reply list = Call(PlanKind::kListMounts);
    ASSERT_EQ(ErrorOf(list), "");
    const std::vector<std::uint64_t> ids = IdsOf(list);
    EXPECT_EQ(ids.size(), LinesOf("/proc/self/mountinfo"));
    EXPECT_EQ(std::count(ids.begin(), ids.end(), mount.body.mount.mount_id), 1);
    std::uint64_t most = 0;
    std::ifstream("/proc/sys/fs/mount-max") >> most;
    EXPECT_EQ(list.body.mount_list.most, most);
  }
}

TEST_F(MountHealthPlans, AProbeTellsHealthyHungAndDead) {
  FuseServer server("/run/host/fuse");
  ASSERT_TRUE(server.valid());
  const Reply mount = Attach("fuse", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(mount), "");
  const std::uint64_t id = mount.body.mount.mount_id;
  EXPECT_NE(mount.body.mount.device, 0U);
  EXPECT_EQ(Probe(id).body.probe.health, MountHealth::kHealthy);
  server.Hang();
  const Reply hung = Probe(id);
  ASSERT_EQ(ErrorOf(hung), "");
  EXPECT_EQ(hung.body.probe.health, MountHealth::kHung);
  EXPECT_EQ(hung.body.probe.lost_children, 0U);
  server.GoOn();
  EXPECT_EQ(Probe(id).body.probe.health, MountHealth::kHealthy);
  server.Die();
  const Reply dead = Probe(id);
  ASSERT_EQ(ErrorOf(dead), "");
  EXPECT_EQ(dead.body.probe.health, MountHealth::kDead);
  EXPECT_EQ(dead.body.probe.sys_errno, ENOTCONN);
  ASSERT_EQ(ErrorOf(Detach(id)), "");
  Unmount("/run/host/fuse");
}

// A probe that waits for an answer does not keep the mount busy.
TEST_F(MountHealthPlans, AMountGoesWhileItIsAsked) {
  FuseServer server("/run/host/fuse");
  ASSERT_TRUE(server.valid());
  const Reply mount = Attach("fuse", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(mount), "");
  server.Hang();
  int unmounted = -1;
  kernel_.Before([&](const std::string& call) {
    if (call == "ProbeFilesystem") {
      unmounted = ::umount2(kTarget, 0);
    }
  });
  EXPECT_EQ(Probe(mount.body.mount.mount_id).body.probe.health,
            MountHealth::kHung);
  kernel_.Before(nullptr);
  EXPECT_EQ(unmounted, 0);
  server.Die();
  Unmount("/run/host/fuse");
}

TEST_F(MountHealthPlans, AProbeIsOfJustThatMount) {
  const Reply mount = Attach("data", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(mount), "");
  EXPECT_EQ(ErrorOf(Probe(mount.body.mount.mount_id)), "");
  EXPECT_EQ(CodeOf(Probe(mount.body.mount.mount_id + 1)), "NotFound");
  EXPECT_EQ(CodeOf(Probe(0)), "NotFound");
  EXPECT_EQ(CodeOf(Probe(1, "none")), "NotFound");
  MountTmpfs(kTarget);
  EXPECT_EQ(CodeOf(Probe(mount.body.mount.mount_id)), "NotFound");
}

TEST_F(MountHealthPlans, EveryKernelCallMayFail) {
  const Reply mount = Attach("data", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(mount), "");
  const auto call = [&](PlanKind kind) {
    return kind == PlanKind::kProbeMount ? Probe(mount.body.mount.mount_id)
                                         : Call(kind);
  };
  for (const PlanKind kind :
       {PlanKind::kWatchMounts, PlanKind::kListMounts, PlanKind::kProbeMount}) {
    last_fd_.reset();
    const Inventory before = Inventory::Take();
    for (const int error : exec::kErrorsOfAnyCall) {
      bool reached = true;
      for (std::size_t k = 1; reached; ++k) {
        SCOPED_TRACE("call " + std::to_string(k) + ", errno " +
                     std::to_string(error));
        kernel_.FailAt(k, error);
        const Reply reply = call(kind);
        const auto& calls = kernel_.calls();
        reached = calls.size() >= k;
        // FUSE tells root nothing of a user's own mount, so the plan looks at
        // the place itself, and a mount that covers the target is an answer.
        const bool covered = error == EACCES && calls.size() > k &&
                             calls.at(k).starts_with("StatLinked");
        EXPECT_EQ(reply.code != 0, reached && !covered);
        EXPECT_EQ(last_fd_.valid(), !reached && kind != PlanKind::kProbeMount);
        last_fd_.reset();
        EXPECT_EQ(Difference(before, Inventory::Take()), "");
      }
      kernel_.FailAt(0, 0);
    }
  }
  ExpectFailed({"WatchMounts", "ProbeFilesystem"});
}

}  // namespace
}  // namespace mountd::testing
