// SPDX-License-Identifier: LGPL-2.1-or-later
// The service's calls on running tasks, and the cgroups that identify tasks.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <algorithm>

#include "mountd/service/services.h"
#include "tests/support/matchers.h"
#include "tests/support/outcome.h"
#include "tests/unit/mountd/service/core_fixture.h"

namespace mountd {
namespace {

constexpr std::uint64_t kWeb = 77;    // /agent/web
constexpr std::uint64_t kOther = 78;  // /other

Config TestConfig() {
  Config config = Core::DefaultConfig();
  config.rules[0].cgroups = {"/agent"};
  return config;
}

class ServiceTasksTest : public CoreFixture {
 protected:
  ServiceTasksTest() : CoreFixture(TestConfig()) {
    executor().PutCgroup(kWeb, "/agent/web");
    executor().PutCgroup(kOther, "/other");
  }
  Result<std::string> Prepare(std::uint64_t cgroup,
                              std::uint32_t uid = Core::kAgent) {
    return services().allocations.PrepareAllocation(Core::By(uid),
                                                    NameOf("web"), "", cgroup);
  }
  // Mounts a volume. Returns the mount's id.
  std::uint64_t Mount(const std::string& name = "m",
                      const std::string& task = "task") {
    BindMountRequest spec;
    spec.allocation = "web";
    spec.task = task;
    spec.name = name;
    spec.wish.source = "data";
    spec.wish.propagation = exec::Propagation::kHostToTask;
    const auto config =
        services().mounts.BindMount(Core::By(Core::kAgent), spec);
    EXPECT_THAT(config, IsOk());
    return config->record.mount_id;
  }
  static exec::Holder Holder(std::uint32_t pid, std::uint32_t uid) {
    exec::Holder holder;
    holder.pid = pid;
    holder.uid = uid;
    holder.comm = {'s', 'h'};
    return holder;
  }
  Result<HolderReport> List(exec::HolderScope scope,
                            std::uint32_t uid = Core::kAgent) {
    return services().tasks.ListHolders(Core::By(uid), NameOf("web"),
                                        NameOf("task"), NameOf("m"), scope);
  }
  Result<TaskReport> Verify(std::uint32_t uid = Core::kAgent) {
    return services().tasks.VerifyTask(Core::By(uid), NameOf("web"),
                                       NameOf("task"), UniqueFd());
  }
};

TEST_F(ServiceTasksTest, ACgroupMustBeGrantedToTheCaller) {
  EXPECT_THAT(Prepare(kOther), IsErr(Code::kPermissionDenied));
  EXPECT_THAT(Prepare(1), IsErr(Code::kNotFound));
  EXPECT_TRUE(core_.state->allocations.ListAllocations()->empty());
  EXPECT_THAT(Prepare(kWeb), IsOk());
  EXPECT_EQ(core_.state->allocations.GetAllocation("web")->value().cgroup,
            kWeb);
  EXPECT_THAT(services().allocations.PrepareAllocation(Core::By(Core::kAdmin),
                                                       NameOf("db"), "", kWeb),
              IsErr(Code::kPermissionDenied));
}

TEST_F(ServiceTasksTest, ACgroupThatNobodyCouldLookAtIsNotTaken) {
  executor().FailNext("InspectCgroup", Code::kUnavailable);
  EXPECT_THAT(Prepare(kWeb), IsErr(Code::kUnavailable));
  EXPECT_TRUE(core_.state->allocations.ListAllocations()->empty());
  EXPECT_TRUE(executor().Existing().empty());
  EXPECT_THAT(Prepare(kWeb), IsOk());
}

TEST_F(ServiceTasksTest, ATaskThatNobodyCouldLookAtIsNotJudged) {
  ASSERT_THAT(Prepare(0), IsOk());
  executor().FailNext("InspectTask", Code::kUnavailable);
  EXPECT_THAT(Verify(), IsErr(Code::kUnavailable));
  ASSERT_THAT(Prepare(kWeb), IsOk());
  Mount();
  executor().FailNext("VerifyTask", Code::kUnavailable);
  EXPECT_THAT(Verify(), IsErr(Code::kUnavailable));
}

TEST_F(ServiceTasksTest, ACgroupGivenAgainReplacesTheOneBefore) {
  executor().PutCgroup(79, "/agent/again");
  ASSERT_THAT(Prepare(kWeb), IsOk());
  EXPECT_THAT(Prepare(kOther), IsErr(Code::kPermissionDenied));
  EXPECT_THAT(Prepare(0), IsOk());
  EXPECT_EQ(core_.state->allocations.GetAllocation("web")->value().cgroup,
            kWeb);
  EXPECT_THAT(Prepare(79), IsOk());
  EXPECT_EQ(core_.state->allocations.GetAllocation("web")->value().cgroup, 79U);
}

TEST_F(ServiceTasksTest, HoldersAreOfTheAllocationsCgroup) {
  ASSERT_THAT(Prepare(0), IsOk());
  const std::uint64_t id = Mount();
  EXPECT_THAT(List(exec::HolderScope::kCgroup),
              IsErr(Code::kFailedPrecondition));
  ASSERT_THAT(Prepare(kWeb), IsOk());
  executor().AddHolder(id, Holder(10, 4321), kWeb);
  executor().AddHolder(id, Holder(11, 4321));
  executor().AddHolder(id + 1, Holder(12, 4321), kWeb);
  const auto report = List(exec::HolderScope::kCgroup);
  ASSERT_THAT(report, IsOk());
  ASSERT_EQ(report->holders.size(), 1U);
  EXPECT_EQ(report->holders[0].pid, 10U);
  ASSERT_TRUE(report->holders[0].details.has_value());
  EXPECT_EQ(report->holders[0].details->uid, 4321U);
  EXPECT_EQ(report->holders[0].details->command, "sh");
  const auto plans = executor().plans();
  const auto search =
      std::find_if(plans.begin(), plans.end(), [](const exec::Request& one) {
        return one.kind == exec::PlanKind::kFindHolders;
      });
  ASSERT_NE(search, plans.end());
  const exec::HoldersPlan plan = search->body.holders;
  EXPECT_EQ(plan.mount_id, id);
  EXPECT_EQ(plan.cgroup, kWeb);
  EXPECT_EQ(plan.budget_ms, 5000U);
}

TEST_F(ServiceTasksTest, OfOthersProcessesOnlyAdministratorsAreToldMore) {
  ASSERT_THAT(Prepare(kWeb), IsOk());
  const std::uint64_t id = Mount();
  executor().AddHolder(id, Holder(10, 4321), kWeb);
  executor().AddHolder(id, Holder(11, Core::kAgent));
  executor().AddHolder(id, Holder(12, 4321));
  const auto own = List(exec::HolderScope::kNode);
  ASSERT_EQ(own->holders.size(), 3U);
  EXPECT_TRUE(own->holders[0].details.has_value());
  EXPECT_TRUE(own->holders[1].details.has_value());
  EXPECT_EQ(own->holders[2].pid, 12U);
  EXPECT_FALSE(own->holders[2].details.has_value());
  const auto all = List(exec::HolderScope::kNode, Core::kAdmin);
  EXPECT_TRUE(all->holders[2].details.has_value());
  EXPECT_THAT(List(exec::HolderScope::kNode, Core::kOther),
              IsErr(Code::kPermissionDenied));
}

TEST_F(ServiceTasksTest, AReplacementTellsWhoStillHasTheOldMount) {
  ASSERT_THAT(Prepare(0), IsOk());
  const std::uint64_t first = Mount();
  const auto replace = [&](bool read_only) {
    BindMountRequest spec;
    spec.allocation = "web";
    spec.task = "task";
    spec.name = "m";
    spec.wish.source = "data";
    spec.wish.propagation = exec::Propagation::kHostToTask;
    spec.wish.attributes = read_only ? exec::kReadOnly : 0U;
    return services().mounts.ReplaceMount(Core::By(Core::kAgent), spec);
  };
  const auto without = replace(true);
  ASSERT_THAT(without, IsOk());
  EXPECT_EQ(without->old_mount_id, first);
  EXPECT_FALSE(without->old_holders.has_value());
  ASSERT_THAT(Prepare(kWeb), IsOk());
  executor().AddHolder(without->config.record.mount_id, Holder(10, 4321), kWeb);
  const auto with = replace(false);
  ASSERT_THAT(with, IsOk());
  ASSERT_TRUE(with->old_holders.has_value());
  ASSERT_EQ(with->old_holders->holders.size(), 1U);
  EXPECT_EQ(with->old_holders->holders[0].pid, 10U);
  // A failed search for holders does not prevent the replacement.
  executor().FailNext("FindHolders", Code::kUnavailable);
  const auto unknown = replace(true);
  ASSERT_THAT(unknown, IsOk());
  EXPECT_FALSE(unknown->old_holders.has_value());
  // A tmpfs cannot replace a mount.
  BindMountRequest tmpfs;
  tmpfs.allocation = "web";
  tmpfs.task = "task";
  tmpfs.name = "m";
  tmpfs.wish.source_kind = exec::SourceKind::kTmpfs;
  EXPECT_THAT(services().mounts.ReplaceMount(Core::By(Core::kAgent), tmpfs),
              IsErr(Code::kNotSupported));
}

TEST_F(ServiceTasksTest, ForceAndAbortAreNotForTheHostsOwn) {
  ASSERT_THAT(Prepare(0), IsOk());
  Mount();
  const auto unmount = [&](exec::UnmountMode mode, std::uint32_t uid) {
    return services().mounts.Unmount(Core::By(uid), NameOf("web"),
                                     NameOf("task"), NameOf("m"), mode);
  };
  EXPECT_THAT(unmount(exec::UnmountMode::kForce, Core::kAgent),
              IsErr(Code::kPermissionDenied));
  EXPECT_THAT(unmount(exec::UnmountMode::kAbort, Core::kAgent),
              IsErr(Code::kPermissionDenied));
  EXPECT_THAT(unmount(exec::UnmountMode::kForce, Core::kAdmin), IsOk());
  Mount();
  EXPECT_THAT(unmount(exec::UnmountMode::kDetach, Core::kAgent), IsOk());
}

TEST_F(ServiceTasksTest, WithoutAMountThereAreNoHolders) {
  EXPECT_THAT(List(exec::HolderScope::kNode), IsErr(Code::kNotFound));
  ASSERT_THAT(Prepare(kWeb), IsOk());
  EXPECT_THAT(List(exec::HolderScope::kNode), IsErr(Code::kNotFound));
}

TEST_F(ServiceTasksTest, AnUnmountThatIsBusyNamesWhoItIsBusyBy) {
  ASSERT_THAT(Prepare(kWeb), IsOk());
  const std::uint64_t id = Mount();
  executor().AddHolder(id, Holder(10, 4321), kWeb);
  executor().SetBusy("web/task/m");
  const CallContext call = Core::By(Core::kAgent);
  const auto unmounted = services().mounts.Unmount(call, NameOf("web"),
                                                   NameOf("task"), NameOf("m"));
  EXPECT_THAT(unmounted, IsErr(Code::kBusy));
  EXPECT_NE(MessageOf(unmounted).find("used by sh (pid 10, cwd)"),
            std::string::npos)
      << MessageOf(unmounted);
  const auto released =
      services().allocations.ReleaseAllocation(call, NameOf("web"));
  EXPECT_THAT(released, IsErr(Code::kBusy));
  EXPECT_NE(MessageOf(released).find("sh (pid 10, cwd)"), std::string::npos);
  // The answer is Busy even if the search for holders fails.
  executor().FailNext("FindHolders", Code::kUnavailable);
  EXPECT_THAT(services().mounts.Unmount(call, NameOf("web"), NameOf("task"),
                                        NameOf("m")),
              IsErr(Code::kBusy));
  executor().SetBusy("web/task/m", false);
  executor().script().Forget();
  EXPECT_THAT(services().mounts.Unmount(call, NameOf("web"), NameOf("task"),
                                        NameOf("m")),
              IsOk());
  EXPECT_EQ(executor().script().Count("FindHolders"), 0U);
}

TEST_F(ServiceTasksTest, ATaskIsVerifiedMountByMount) {
  ASSERT_THAT(Prepare(kWeb), IsOk());
  const std::uint64_t good = Mount("a");
  const std::uint64_t lost = Mount("b");
  Mount("other", "sidecar");
  executor().SetTask(kWeb);
  const std::uint64_t master =
      core_.boot->mounts.GetMount("web", "task", "a")->value().master;
  const std::uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  executor().SetTaskMount(good, {0, 1, 0, attributes, 0, master});
  executor().SetTaskMount(lost, {0, 1, 0, attributes, 0, 0});
  const auto report = Verify();
  ASSERT_THAT(report, IsOk());
  ASSERT_EQ(report->mounts.size(), 2U);
  EXPECT_EQ(report->mounts[0].verdict, "ok");
  EXPECT_EQ(report->mounts[1].verdict, "lost-propagation");
  EXPECT_FALSE(report->ok());
  EXPECT_THAT(Verify(Core::kOther), IsErr(Code::kPermissionDenied));
}

TEST_F(ServiceTasksTest, MoreMountsThanAPlanTakesAreVerifiedToo) {
  ASSERT_THAT(Prepare(kWeb), IsOk());
  for (std::size_t i = 0; i <= exec::kMaxTaskMounts; ++i) {
    Mount("m" + std::to_string(i));
  }
  executor().SetTask(kWeb);
  const auto report = Verify();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->mounts.size(), exec::kMaxTaskMounts + 1);
  EXPECT_EQ(report->mounts.back().verdict, "missing");
  EXPECT_EQ(executor().script().Count("VerifyTask"), 2U);
}

TEST_F(ServiceTasksTest, ATaskOfAnotherCgroupIsNotVerified) {
  ASSERT_THAT(Prepare(kWeb), IsOk());
  executor().SetTask(kOther);
  EXPECT_THAT(Verify(), IsErr(Code::kFailedPrecondition));
  executor().SetTask(0);
  EXPECT_THAT(Verify(), IsErr(Code::kFailedPrecondition));
}

TEST_F(ServiceTasksTest, WithoutACgroupTheTasksOwnMustBeGranted) {
  ASSERT_THAT(Prepare(0), IsOk());
  executor().SetTask(kOther);
  EXPECT_THAT(Verify(), IsErr(Code::kPermissionDenied));
  executor().SetTask(kWeb);
  const auto report = Verify();
  ASSERT_THAT(report, IsOk());
  EXPECT_TRUE(report->ok());
  EXPECT_EQ(executor().plans().back().body.verify_task.cgroup, kWeb);
}

TEST_F(ServiceTasksTest, CopiesAreListedWithTheHolders) {
  ASSERT_THAT(Prepare(kWeb), IsOk());
  const std::uint64_t mount = Mount();
  executor().AddHolder(mount, Holder(5, Core::kAgent), kWeb);
  executor().AddCopy(mount, "", Holder(5, Core::kAgent), kWeb);
  executor().AddCopy(mount, "", Holder(6, Core::kAgent), kWeb);
  const auto report = List(exec::HolderScope::kCgroup);
  ASSERT_THAT(report, IsOk());
  ASSERT_EQ(report->holders.size(), 2U);
  EXPECT_EQ(report->holders[1].pid, 6U);
  EXPECT_EQ(report->holders[1].details->how, "mount");
  EXPECT_TRUE(report->holders[1].details->copy);
}

TEST_F(ServiceTasksTest, AMountOfWhichATaskHasACopyStays) {
  ASSERT_THAT(Prepare(kWeb), IsOk());
  executor().AddCopy(Mount(), "", Holder(6, Core::kAgent), kWeb);
  const auto unmount = [&](OnTasks on_tasks, exec::UnmountMode mode) {
    return Outcome(services().mounts.Unmount(Core::By(Core::kAgent),
                                             NameOf("web"), NameOf("task"),
                                             NameOf("m"), mode, on_tasks));
  };
  EXPECT_EQ(unmount(OnTasks::kRefuse, exec::UnmountMode::kPlain), "Busy");
  EXPECT_TRUE(services().node.ListOwed(CallContext{})->empty());
  EXPECT_EQ(executor().script().Count("Detach"), 0U);
  EXPECT_EQ(unmount(OnTasks::kIgnore, exec::UnmountMode::kPlain), "Ok");
  executor().EndProcesses();
  executor().AddCopy(Mount(), "", Holder(6, Core::kAgent), kWeb);
  EXPECT_EQ(unmount(OnTasks::kRefuse, exec::UnmountMode::kDetach), "Ok");
}

TEST_F(ServiceTasksTest, AMountOfWhichATaskHasACopyIsNotReplaced) {
  ASSERT_THAT(Prepare(kWeb), IsOk());
  executor().AddCopy(Mount(), "", Holder(6, Core::kAgent), kWeb);
  BindMountRequest spec;
  spec.allocation = "web";
  spec.task = "task";
  spec.name = "m";
  spec.wish.source = "data";
  spec.wish.attributes = exec::kReadOnly;
  EXPECT_THAT(services().mounts.ReplaceMount(Core::By(Core::kAgent), spec),
              IsErr(Code::kBusy));
  EXPECT_THAT(services().mounts.ReplaceMount(Core::By(Core::kAgent), spec,
                                             OnTasks::kIgnore),
              IsOk());
}

}  // namespace
}  // namespace mountd
