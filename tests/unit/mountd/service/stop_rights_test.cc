// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The right of a lease to stop tasks, if a rule names a group.
#include "mountd/service/stop_rights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "tests/support/matchers.h"
#include "tests/support/outcome.h"
#include "tests/unit/mountd/service/core_fixture.h"

namespace mountd {
namespace {

constexpr std::uint64_t kTasksCgroup = 77;
constexpr gid_t kPrimary = 1000;
constexpr gid_t kGames = 60;

Config ConfigOfGroups() {
  Config config = Core::DefaultConfig();
  config.rules[0].cgroups = {"/agent"};
  RuleConfig& games = config.rules.emplace_back();
  games.gids = {kGames};
  games.cgroups = {"/agent"};
  games.stop_tasks = exec::TaskStop::kKill;
  return config;
}

class StopRightsTest : public CoreFixture {
 protected:
  StopRightsTest() : CoreFixture(ConfigOfGroups()) {}
  void SetUp() override { Start({kPrimary, kGames}); }

  // Starts mountd with these groups of each user in the user database.
  void Start(std::vector<gid_t> groups) {
    core_.user_database.entry = [this](uid_t, passwd* entry, char*, std::size_t,
                                       passwd** found) {
      ++questions_;
      if (error_ != 0) {
        return error_;
      }
      static char name[] = "agent";
      entry->pw_name = name;
      entry->pw_gid = kPrimary;
      *found = entry;
      return 0;
    };
    core_.user_database.groups = [groups](const char*, gid_t, gid_t* all,
                                          int* count) {
      std::copy(groups.begin(), groups.end(), all);
      *count = static_cast<int>(groups.size());
      return *count;
    };
    core_.Restart();
    executor().PutCgroup(kTasksCgroup, "/agent/web");
    ASSERT_THAT(core_.Recover(), IsOk());
    questions_ = 0;
  }
  std::string Prepare(const std::vector<std::uint32_t>& groups) {
    return Outcome(services().allocations.PrepareAllocation(
        By(groups), NameOf("web"), "prod", kTasksCgroup, 0, false));
  }
  static CallContext By(const std::vector<std::uint32_t>& groups) {
    CallContext call = Core::By(Core::kAgent);
    call.caller.groups = groups;
    return call;
  }
  Result<LeaseRecord> Acquire(const std::vector<std::uint32_t>& groups) {
    LeaseRecord lease;
    lease.key.name = "lease";
    lease.scope = "prod";
    lease.kind = LeaseKind::kHeartbeat;
    lease.timeout_ms = 10'000;
    lease.stop_tasks = exec::TaskStop::kKill;
    return services().lease_verbs.AcquireLease(By(groups), lease, nullptr);
  }
  void Lapse() {
    core_.boot_us += 10'000'000;
    for (const Leases::Due& due : services().leases.DueNow()) {
      ASSERT_THAT(services().leases.Lapse(due.key, due.reason), IsOk());
    }
  }
  // Returns the owners that the executor was asked about.
  std::vector<exec::CallerPlan> Owners() {
    std::vector<exec::CallerPlan> owners;
    for (const exec::Request& plan : executor().plans()) {
      if (plan.kind == exec::PlanKind::kStopTasks) {
        owners.push_back(plan.body.stop_tasks.owner);
      }
    }
    return owners;
  }
  void LetTheUserStop() {
    Config config = core_.config;
    config.rules[0].stop_tasks = exec::TaskStop::kKill;
    core_.live_config.ReplaceLive(config);
  }

  int questions_ = 0;
  int error_ = 0;
};

TEST_F(StopRightsTest, AGroupOfTheDatabaseGrantsTheLeaseAndItsFence) {
  ASSERT_EQ(Prepare({kGames}), "Ok");
  ASSERT_THAT(Acquire({kGames}), IsOk());
  Lapse();
  executor().FailNext("StopTasks", Code::kPermissionDenied);
  ASSERT_THAT(services().fences.StopTasks("web"), IsOk());
  ASSERT_EQ(Owners().size(), 2U);
  EXPECT_EQ(Owners()[0].gid_count, 1U);
  EXPECT_EQ(Owners()[0].gids[0], exec::kNoId);
  ASSERT_EQ(Owners()[1].gid_count, 2U);
  EXPECT_EQ(Owners()[1].gids[1], kGames);
  EXPECT_EQ(services().leases.Pending().front().stop_tasks,
            exec::TaskStop::kKill);
}

// A process may have a group by SupplementaryGroups= of its unit alone. Its
// fence would stop nothing.
TEST_F(StopRightsTest, AGroupThatTheDatabaseLacksGrantsNoLease) {
  Start({kPrimary});
  ASSERT_EQ(Prepare({kGames}), "Ok");
  const auto acquired = Acquire({kGames});
  EXPECT_THAT(acquired, IsErr(Code::kFailedPrecondition));
  const std::string why = MessageOf(acquired);
  EXPECT_NE(why.find("group 60"), std::string::npos) << why;
  EXPECT_NE(why.find("add user 1000 to users"), std::string::npos) << why;
  EXPECT_TRUE(services().leases.List().empty());
  EXPECT_THAT(Acquire({}), IsErr(Code::kPermissionDenied));
}

// Nor does a cgroup that comes under a scope's lease later.
TEST_F(StopRightsTest, NorDoesItGrantACgroupThatComesLater) {
  ASSERT_THAT(Acquire({kGames}), IsOk());
  ASSERT_EQ(Prepare({kGames}), "Ok");
  Start({kPrimary});
  EXPECT_EQ(Outcome(services().allocations.PrepareAllocation(
                By({kGames}), NameOf("db"), "prod", kTasksCgroup, 0, false)),
            "FailedPrecondition");
}

TEST_F(StopRightsTest, AUsersRuleNeedsNoDatabase) {
  LetTheUserStop();
  error_ = EIO;
  ASSERT_EQ(Prepare({}), "Ok");
  ASSERT_THAT(Acquire({}), IsOk());
  Lapse();
  ASSERT_THAT(services().fences.StopTasks("web"), IsOk());
  EXPECT_EQ(Owners().size(), 1U);
  EXPECT_EQ(questions_, 0);
  EXPECT_EQ(services().leases.Pending().front().stop_tasks,
            exec::TaskStop::kKill);
}

TEST_F(StopRightsTest, AGroupsRuleWaitsForTheDatabase) {
  ASSERT_EQ(Prepare({kGames}), "Ok");
  error_ = EIO;
  EXPECT_THAT(Acquire({kGames}), IsErr(Code::kUnavailable));
  error_ = 0;
  ASSERT_THAT(Acquire({kGames}), IsOk());
  Lapse();
  error_ = EIO;
  executor().FailNext("StopTasks", Code::kPermissionDenied);
  EXPECT_EQ(Outcome(services().fences.StopTasks("web")), "Unavailable");
  error_ = 0;
  executor().FailNext("StopTasks", Code::kPermissionDenied);
  EXPECT_THAT(services().fences.StopTasks("web"), IsOk());
}

}  // namespace
}  // namespace mountd
