// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/root/cgroup_fixture.h"

namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Reply;
using exec::TaskStop;

constexpr uid_t kLeaseOwner = 1000;

// Takes CAP_DAC_OVERRIDE from this thread as long as it lives.
class WithoutOverride {
 public:
  WithoutOverride() { Set(true); }
  ~WithoutOverride() { Set(false); }
  WithoutOverride(const WithoutOverride&) = delete;
  WithoutOverride& operator=(const WithoutOverride&) = delete;

 private:
  static void Set(bool without) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
    ASSERT_EQ(::syscall(SYS_capget, &header, sets.data()), 0);
    constexpr std::uint32_t kBit = 1U << CAP_DAC_OVERRIDE;
    sets[0].effective =
        without ? sets[0].effective & ~kBit : sets[0].effective | kBit;
    ASSERT_EQ(::syscall(SYS_capset, &header, sets.data()), 0);
  }
};

class StopTasks : public CgroupFixture {
 protected:
  void SetUp() override {
    CgroupFixture::SetUp();
    if (!IsSkipped()) {
      config_.rules.back().uids = {kLeaseOwner};
      config_.rules.back().stop_tasks = TaskStop::kKill;
    }
  }
  Reply Stop(std::uint64_t id, TaskStop how, std::uint32_t budget_ms = 5000) {
    return StopAs(OwnerOf(kLeaseOwner), id, how, budget_ms);
  }
  Reply StopAs(const exec::CallerPlan& owner, std::uint64_t id,
               TaskStop how = TaskStop::kKill, std::uint32_t budget_ms = 5000) {
    return Call(PlanKind::kStopTasks, [&](PlanBody* body) {
      body->stop_tasks = {id, how, budget_ms, owner};
    });
  }
  static exec::CallerPlan OwnerOf(uid_t uid, gid_t gid = exec::kNoId) {
    exec::CallerPlan owner;
    owner.uid = uid;
    owner.gid_count = 1;
    owner.gids[0] = gid;
    return owner;
  }
  std::string PathIn(const std::string& name, const std::string& file) const {
    return "/sys/fs/cgroup" + top() + "/" + name + "/" + file;
  }
  std::string Events(const std::string& name) const {
    std::ifstream file(PathIn(name, "cgroup.events"));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Thaw(const std::string& name) const {
    std::ofstream(PathIn(name, "cgroup.freeze")) << "0";
  }
  // Returns whether the child ended by SIGKILL, and waits for it.
  static bool WasKilled(Child& child) {
    int status = 0;
    const bool ended = ::waitpid(child.pid, &status, 0) == child.pid;
    child.pid = -1;
    return ended && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  }
  static bool Lives(const Child& child) {
    return ::waitpid(child.pid, nullptr, WNOHANG) == 0;
  }
};

TEST_F(StopTasks, KillsAllInTheCgroupAndBeneathIt) {
  const std::uint64_t id = MakeCgroup("web");
  MakeCgroup("web/inner");
  MakeCgroup("db");
  Child& task = Spawn("web", [] { return true; });
  Child& inner = Spawn("web/inner", [] { return true; });
  Child& other = Spawn("db", [] { return true; });
  const Reply reply = Stop(id, TaskStop::kKill);
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(reply.body.stop_tasks.had_processes, 1U);
  EXPECT_NE(Events("web").find("populated 0"), std::string::npos);
  EXPECT_TRUE(WasKilled(task));
  EXPECT_TRUE(WasKilled(inner));
  EXPECT_TRUE(Lives(other));
  // Nothing is left to stop, and saying so again is no error.
  const Reply again = Stop(id, TaskStop::kKill);
  EXPECT_EQ(ErrorOf(again), "");
  EXPECT_EQ(again.body.stop_tasks.had_processes, 0U);
}

TEST_F(StopTasks, FreezesAllInTheCgroupUntilItsOwnerThawsThem) {
  const std::uint64_t id = MakeCgroup("web");
  MakeCgroup("web/inner");
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
  const UniqueFd ticks(ends[0]);
  const UniqueFd writer(ends[1]);
  // The grandchild writes until somebody stops it.
  Child& task = Spawn("web/inner", [&] {
    if (::fork() == 0) {
      while (::write(writer.get(), "x", 1) >= 0 || errno == EAGAIN) {
        ::usleep(1000);
      }
    }
    return true;
  });
  const Reply reply = Stop(id, TaskStop::kFreeze);
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(reply.body.stop_tasks.had_processes, 1U);
  EXPECT_NE(Events("web").find("frozen 1"), std::string::npos);
  EXPECT_TRUE(Lives(task));
  const auto drain = [&] {
    std::array<char, 65536> bytes{};
    return ::read(ticks.get(), bytes.data(), bytes.size());
  };
  drain();
  ::usleep(50'000);
  EXPECT_EQ(drain(), -1) << "a frozen task wrote";
  // A kill reaches frozen tasks, too.
  EXPECT_EQ(ErrorOf(Stop(id, TaskStop::kKill)), "");
  EXPECT_TRUE(WasKilled(task));
  Thaw("web");
}

TEST_F(StopTasks, AnEmptyOrRemovedCgroupHasNone) {
  const std::uint64_t id = MakeCgroup("web");
  const Reply frozen = Stop(id, TaskStop::kFreeze);
  EXPECT_EQ(ErrorOf(frozen), "");
  EXPECT_EQ(frozen.body.stop_tasks.had_processes, 0U);
  ASSERT_EQ(::rmdir(PathIn("web", "").c_str()), 0);
  EXPECT_EQ(CodeOf(Stop(id, TaskStop::kKill)), "NotFound");
}

// The rule of an agent that is gone may be gone, too.
TEST_F(StopTasks, AnEmptyOrRemovedCgroupNeedsNoRule) {
  const std::uint64_t id = MakeCgroup("web");
  config_.rules.clear();
  const Reply empty = Stop(id, TaskStop::kFreeze);
  EXPECT_EQ(ErrorOf(empty), "");
  EXPECT_EQ(empty.body.stop_tasks.had_processes, 0U);
  EXPECT_EQ(Events("web").find("frozen 1"), std::string::npos);
  Child& task = Spawn("web", [] { return true; });
  EXPECT_EQ(CodeOf(Stop(id, TaskStop::kKill)), "PermissionDenied");
  EXPECT_TRUE(Lives(task));
  struct stat root = {};
  ASSERT_EQ(::stat("/sys/fs/cgroup", &root), 0);
  EXPECT_EQ(CodeOf(Stop(root.st_ino, TaskStop::kKill)), "PermissionDenied");
  const std::uint64_t gone = MakeCgroup("gone");
  ASSERT_EQ(::rmdir(PathIn("gone", "").c_str()), 0);
  EXPECT_EQ(CodeOf(Stop(gone, TaskStop::kKill)), "NotFound");
}

TEST_F(StopTasks, TheRuleOfTheCgroupMustGrantIt) {
  const std::uint64_t id = MakeCgroup("web");
  Child& task = Spawn("web", [] { return true; });
  config_.rules.back().stop_tasks = TaskStop::kFreeze;
  EXPECT_EQ(CodeOf(Stop(id, TaskStop::kKill)), "PermissionDenied");
  config_.rules.back().stop_tasks = TaskStop::kNo;
  EXPECT_EQ(CodeOf(Stop(id, TaskStop::kFreeze)), "PermissionDenied");
  // Another rule's right is for that rule's cgroups.
  RuleConfig other;
  other.uids = {kLeaseOwner};
  other.cgroups = {"/other"};
  other.stop_tasks = TaskStop::kKill;
  config_.rules.push_back(other);
  EXPECT_EQ(CodeOf(Stop(id, TaskStop::kKill)), "PermissionDenied");
  EXPECT_TRUE(Lives(task));
}

// A compromised mountd may name any user as the lease's owner.
TEST_F(StopTasks, TheRuleMustBeOfTheLeasesOwner) {
  constexpr uid_t kAnotherUser = 1001;
  constexpr uid_t kUnknown = 1002;
  constexpr gid_t kOwnersGroup = 2000;
  const std::uint64_t id = MakeCgroup("web");
  Child& task = Spawn("web", [] { return true; });
  RuleConfig other;
  other.uids = {kAnotherUser};
  other.cgroups = {top()};
  config_.rules.push_back(other);
  EXPECT_EQ(CodeOf(StopAs(OwnerOf(kAnotherUser), id)), "PermissionDenied");
  EXPECT_EQ(CodeOf(StopAs(OwnerOf(kUnknown), id)), "PermissionDenied");
  // The right of this user is for other cgroups.
  RuleConfig elsewhere;
  elsewhere.uids = {kAnotherUser};
  elsewhere.cgroups = {"/other"};
  elsewhere.stop_tasks = TaskStop::kKill;
  config_.rules.push_back(elsewhere);
  EXPECT_EQ(CodeOf(StopAs(OwnerOf(kAnotherUser), id)), "PermissionDenied");
  EXPECT_TRUE(Lives(task));
  // A rule may name the owner's group instead.
  RuleConfig group;
  group.gids = {kOwnersGroup};
  group.cgroups = {top()};
  group.stop_tasks = TaskStop::kKill;
  config_.rules.push_back(group);
  EXPECT_EQ(CodeOf(StopAs(OwnerOf(kUnknown, kOwnersGroup + 1), id)),
            "PermissionDenied");
  EXPECT_TRUE(Lives(task));
  EXPECT_EQ(ErrorOf(StopAs(OwnerOf(kUnknown, kOwnersGroup), id)), "");
  EXPECT_TRUE(WasKilled(task));
}

// A rule may grant "/", and a compromised mountd may ask for any cgroup in it.
TEST_F(StopTasks, MountdItselfIsNotStopped) {
  config_.rules.back().cgroups = {"/"};
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  std::string own;
  while (std::getline(file, line)) {
    own = line.starts_with("0::") ? line.substr(3) : own;
  }
  struct stat st = {};
  ASSERT_EQ(::stat(("/sys/fs/cgroup" + own).c_str(), &st), 0);
  EXPECT_EQ(CodeOf(Stop(st.st_ino, TaskStop::kFreeze)), "FailedPrecondition");
  ASSERT_EQ(::stat("/sys/fs/cgroup", &st), 0);
  EXPECT_EQ(CodeOf(Stop(st.st_ino, TaskStop::kKill)), "FailedPrecondition");
}

// mountd, mountd-csi and the other executors are in cgroups of their own.
TEST_F(StopTasks, NoServiceOfMountdIsStopped) {
  MakeCgroup("system-mountd\\x2dexec.slice");
  for (const char* name :
       {"mountd.service", "mountd-csi.service",
        "system-mountd\\x2dexec.slice/mountd-exec@1.service"}) {
    const std::uint64_t id = MakeCgroup(name);
    EXPECT_EQ(CodeOf(Stop(id, TaskStop::kKill)), "FailedPrecondition") << name;
    EXPECT_EQ(CodeOf(Stop(id, TaskStop::kFreeze)), "FailedPrecondition");
  }
  EXPECT_EQ(ErrorOf(Stop(MakeCgroup("mountd-web"), TaskStop::kKill)), "");
}

// A user owns the cgroups that the user made, and the executor has no
// CAP_DAC_OVERRIDE.
TEST_F(StopTasks, ACgroupOfAUserIsStoppedWithoutOverridingModes) {
  const std::uint64_t id = MakeCgroup("web");
  for (const char* file : {"", "cgroup.freeze", "cgroup.kill"}) {
    ASSERT_EQ(::chown(PathIn("web", file).c_str(), kLeaseOwner, kLeaseOwner),
              0);
  }
  Child& task = Spawn("web", [] { return true; });
  {
    const WithoutOverride without;
    EXPECT_EQ(ErrorOf(Stop(id, TaskStop::kFreeze)), "");
  }
  const WithoutOverride without;
  EXPECT_EQ(ErrorOf(Stop(id, TaskStop::kKill)), "");
  EXPECT_TRUE(WasKilled(task));
}

// A pause that doubled without a bound would overflow within three seconds, and
// the executor would then write without a pause.
TEST_F(StopTasks, WaitsBetweenItsLooksUntilTheBudgetEnds) {
  const std::uint64_t id = MakeCgroup("web");
  std::size_t looks = 0;
  kernel_.Before([&](const std::string& call) {
    if (call == "ReadFile") {
      Thaw("web");
      ++looks;
    }
  });
  EXPECT_EQ(CodeOf(Stop(id, TaskStop::kFreeze, 4000)), "Busy");
  kernel_.Before({});
  EXPECT_LT(looks, 200U);
}

TEST_F(StopTasks, EachCallOfTheKernelMayFail) {
  const std::uint64_t id = MakeCgroup("web");
  ASSERT_EQ(ErrorOf(Stop(id, TaskStop::kFreeze)), "");
  const std::size_t calls = kernel_.calls().size();
  ASSERT_NE(calls, 0U);
  for (std::size_t k = 1; k <= calls; ++k) {
    Thaw("web");
    kernel_.FailAt(k, EIO);
    const Reply reply = Stop(id, TaskStop::kFreeze, 50);
    kernel_.FailAt(0, 0);
    const bool frozen = Events("web").find("frozen 1") != std::string::npos;
    EXPECT_TRUE(reply.code != 0 || frozen) << "call " << k;
  }
  ExpectFailed({"WriteAs"});
}

}  // namespace
}  // namespace mountd::testing
