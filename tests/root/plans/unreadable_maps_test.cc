// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A task keeps whoever reads its memory maps waiting (UnreadableMaps). The
// executor's searches end in time, say which process they could not inspect,
// and still find other processes.
#include "tests/support/unreadable_maps.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tests/root/cgroup_fixture.h"
#include "tests/support/naive.h"
#include "tests/support/servers/fuse_server.h"

namespace mountd::testing {
namespace {

using exec::Holder;
using exec::HolderScope;
using exec::HoldersState;
using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;

constexpr char kServed[] = "/run/fuse";
constexpr uid_t kTaskUid = 1234;

// Maps a file of the mount and keeps no descriptor of it.
bool MapsFile() {
  const UniqueFd file(
      ::open((std::string(kTarget) + "/mark").c_str(), O_RDONLY | O_CLOEXEC));
  return ::mmap(nullptr, 1, PROT_READ, MAP_SHARED, file.get(), 0) != MAP_FAILED;
}

class UnreadableMapsOfATask : public CgroupFixture {
 protected:
  void SetUp() override {
    CgroupFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    cgroup_ = MakeCgroup("web");
    MakeDirectories(kServed);
    server_.emplace(kServed);
    ASSERT_TRUE(server_->valid()) << errno;
    maps_ = std::make_unique<UnreadableMaps>(&*server_,
                                             std::string(kServed) + "/file");
    PrepareBase();
    // A file system of its own, because the search for copies reads maps only
    // for such.
    MountTmpfs("/run/host/data");
    const Reply attached = Attach("data", Propagation::kPrivate);
    ASSERT_EQ(ErrorOf(attached), "");
    mount_id_ = attached.body.mount.mount_id;
  }
  // The task ends only after its server.
  void TearDown() override {
    server_.reset();
    CgroupFixture::TearDown();
  }

  // Spawns the task that nobody can inspect. It maps a file of the mount, too.
  void SpawnUnreadable() {
    task_ = &Spawn("web", [this] {
      return ::setresuid(kTaskUid, kTaskUid, kTaskUid) == 0 && MapsFile() &&
             maps_->Begin();
    });
    ASSERT_TRUE(maps_->Await());
  }

  Reply FindHolders(std::uint64_t cgroup) {
    return Call(PlanKind::kFindHolders, [&](PlanBody* body) {
      body->holders = {mount_id_, HolderScope::kCgroup, kBudgetMs, cgroup};
    });
  }
  HoldersState FindCopies() {
    const Reply reply = Call(PlanKind::kFindCopies, [&](PlanBody* body) {
      body->copies = exec::CopiesPlan{};
      body->copies.scope = HolderScope::kCgroup;
      body->copies.budget_ms = kBudgetMs;
      body->copies.cgroup = cgroup_;
      body->copies.count = 1;
      body->copies.mount_ids[0] = mount_id_;
    });
    EXPECT_EQ(ErrorOf(reply), "");
    return reply.body.copies.holders;
  }

  static constexpr std::uint32_t kBudgetMs = 1000;

  std::optional<FuseServer> server_;
  std::unique_ptr<UnreadableMaps> maps_;
  Child* task_ = nullptr;
  std::uint64_t cgroup_ = 0;
  std::uint64_t mount_id_ = 0;
};

TEST_F(UnreadableMapsOfATask, ASearchForHoldersEndsAndFindsTheOthers) {
  ASSERT_NO_FATAL_FAILURE(SpawnUnreadable());
  EXPECT_NAIVE(NaiveReaderWaits(task_->pid));
  const Child& other = Spawn("web", MapsFile);
  const Reply reply = FindHolders(cgroup_);
  ASSERT_EQ(ErrorOf(reply), "");
  const HoldersState& found = reply.body.holders;
  EXPECT_EQ(found.incomplete, 1U);
  ASSERT_EQ(found.count, 1U);
  EXPECT_EQ(found.holders[0].pid, static_cast<std::uint32_t>(other.pid));
  // The executor is not busy with the task any more.
  EXPECT_EQ(ErrorOf(FindHolders(MakeCgroup("other"))), "");
}

TEST_F(UnreadableMapsOfATask, ASearchForCopiesEndsAndNamesTheTask) {
  ASSERT_EQ(FindCopies().incomplete, 0U);
  ASSERT_NO_FATAL_FAILURE(SpawnUnreadable());
  EXPECT_NAIVE(NaiveReaderWaits(task_->pid));
  const HoldersState found = FindCopies();
  EXPECT_EQ(found.incomplete, 1U);
  EXPECT_EQ(found.unseen_pid, static_cast<std::uint32_t>(task_->pid));
  EXPECT_EQ(found.unseen_error, static_cast<std::uint32_t>(ETIMEDOUT));
}

TEST_F(UnreadableMapsOfATask, AreReadWhenTheTaskHasEnded) {
  ASSERT_NO_FATAL_FAILURE(SpawnUnreadable());
  EXPECT_EQ(FindCopies().incomplete, 1U);
  server_->Die();
  End(*task_);
  EXPECT_EQ(FindCopies().incomplete, 0U);
  const Reply reply = FindHolders(cgroup_);
  EXPECT_EQ(reply.body.holders.incomplete, 0U);
  EXPECT_EQ(reply.body.holders.count, 0U);
}

}  // namespace
}  // namespace mountd::testing
