// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "mountd/base/paths.h"
#include "mountd/config/accepted_config.h"
#include "tests/root/executor_fixture.h"
#include "tests/support/killed_child.h"

// mountd's tree in a mount namespace of its own (propagation/residence.h).
namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;
using exec::Request;
using exec::ToWire;

std::string NamespaceOf(const char* path) {
  struct stat facts = {};
  return ::stat(path, &facts) == 0 ? std::to_string(facts.st_ino) : "";
}

std::set<std::string> MountsBelow(const std::string& path) {
  std::set<std::string> found;
  std::ifstream table("/proc/self/mountinfo");
  for (std::string line; std::getline(table, line);) {
    if (line.find(" " + path) != std::string::npos) {
      found.insert(line);
    }
  }
  return found;
}

// Tests of a mount namespace of mountd's own. A plan leaves this process in the
// namespace where it was carried out, which is the tree's, so the tests enter
// the host's namespace for a moment to look there.
class ResidenceTest : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_SHARED, nullptr), 0);
    host_.reset(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
    host_inode_ = NamespaceOf("/proc/self/ns/mnt");
    config_.mounts.own_namespace = true;
  }
  void TearDown() override {
    if (host_.valid()) {
      ::setns(host_.get(), CLONE_NEWNS);
    }
    ExecutorFixture::TearDown();
  }

  static void In(int mounts, const std::function<void()>& look) {
    const UniqueFd here(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(::setns(mounts, CLONE_NEWNS), 0);
    look();
    ASSERT_EQ(::setns(here.get(), CLONE_NEWNS), 0);
  }
  void AtHost(const std::function<void()>& look) { In(host_.get(), look); }
  // Starts another executor, which finds the state of the one before.
  void StartAnew() {
    dispatcher_.reset();
    ASSERT_EQ(::setns(host_.get(), CLONE_NEWNS), 0);
    dispatcher_.emplace(kernel_, config_);
  }
  std::string Pinned() {
    std::string inode;
    AtHost([&] { inode = NamespaceOf(paths::kNamespace); });
    return inode;
  }
  Reply OnPlugin(PlanKind kind) {
    return Call(kind, [](PlanBody* body) { body->plugin = {ToWire("p")}; });
  }
  void ReleaseAll() {
    ASSERT_EQ(ErrorOf(Call(PlanKind::kRemoveAllocation,
                           [](PlanBody* body) {
                             body->allocation = {ToWire("web"), 1234};
                           })),
              "");
    ASSERT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
  }

  UniqueFd host_;
  std::string host_inode_;
};

TEST_F(ResidenceTest, TheHostSeesThePinAndNothingElse) {
  PrepareBase();
  ASSERT_EQ(ErrorOf(Attach("data", Propagation::kHostToTask)), "");
  EXPECT_TRUE(Exists(std::string(kTarget) + "/file"));
  EXPECT_EQ(NamespaceOf("/proc/self/ns/mnt"), Pinned());
  AtHost([] {
    // The host's namespace has one file mounted on itself, and the pin on it,
    // which is one unit of systemd.
    const std::set<std::string> mounts = MountsBelow("/run/mountd");
    EXPECT_EQ(mounts.size(), 2U);
    EXPECT_EQ(MountsBelow(paths::kNamespace), mounts);
    EXPECT_FALSE(Exists("/run/mountd/base/a"));
    EXPECT_TRUE(MountsBelow("/run/host/data").empty());
  });
}

// The executor has ended, so only the pin keeps the namespace.
TEST_F(ResidenceTest, ItOutlivesItsExecutorsAndOthersEnterIt) {
  PrepareBase();
  const Reply mounted = Attach("data", Propagation::kHostToTask);
  ASSERT_EQ(ErrorOf(mounted), "");
  const std::string first = Pinned();
  StartAnew();
  EXPECT_FALSE(Exists(kTarget));
  const Reply again = Attach("data", Propagation::kHostToTask);
  ASSERT_EQ(ErrorOf(again), "");
  EXPECT_EQ(again.body.mount.mount_id, mounted.body.mount.mount_id);
  EXPECT_EQ(NamespaceOf("/proc/self/ns/mnt"), first);
  EXPECT_EQ(ErrorOf(Detach(mounted.body.mount.mount_id)), "");
  ReleaseAll();
}

TEST_F(ResidenceTest, ExecutorsThatStartAtOnceAreInOneNamespace) {
  constexpr int kExecutors = 8;
  std::array<int, 2> told{};
  ASSERT_EQ(::pipe2(told.data(), O_CLOEXEC), 0);
  for (int i = 0; i < kExecutors; ++i) {
    if (::fork() == 0) {
      const bool done = CodeOf(Call(PlanKind::kPrepareBase)).empty();
      struct stat facts = {};
      ::stat("/proc/self/ns/mnt", &facts);
      const std::uint64_t inode = done ? facts.st_ino : 0;
      ::_exit(::write(told[1], &inode, sizeof(inode)) > 0 ? 0 : 1);
    }
  }
  std::set<std::uint64_t> inodes;
  for (int i = 0; i < kExecutors; ++i) {
    std::uint64_t inode = 0;
    ASSERT_EQ(::read(told[0], &inode, sizeof(inode)),
              static_cast<ssize_t>(sizeof(inode)));
    inodes.insert(inode);
    ::wait(nullptr);
  }
  ::close(told[0]);
  ::close(told[1]);
  ASSERT_EQ(inodes.size(), 1U);
  EXPECT_EQ(std::to_string(*inodes.begin()), Pinned());
  EXPECT_EQ(MountsBelow(paths::kNamespace).size(), 2U);
}

TEST_F(ResidenceTest, WhatTheHostMountsComesAndGoes) {
  PrepareBase();
  ASSERT_EQ(ErrorOf(Attach("data", Propagation::kHostToTask)), "");
  AtHost([] { MountTmpfs("/run/host/data/sub"); });
  EXPECT_TRUE(Exists(std::string(kTarget) + "/sub/mark"));
  AtHost([] { Unmount("/run/host/data/sub"); });
  EXPECT_FALSE(Exists(std::string(kTarget) + "/sub/mark"));
  AtHost([] { MountTmpfs("/run/host/real"); });
  EXPECT_TRUE(Exists("/run/host/real/mark"));
  AtHost([] { Unmount("/run/host/real"); });
  EXPECT_FALSE(Exists("/run/host/real/mark"));
}

TEST_F(ResidenceTest, WhatTheHostHasMountedInASourceKeepsNoAnchor) {
  PrepareBase();
  const Reply reply = Attach("data", Propagation::kHostToTask);
  ASSERT_EQ(ErrorOf(reply), "");
  AtHost([] { MountTmpfs("/run/host/data/sub"); });
  ASSERT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  ReleaseAll();
  EXPECT_FALSE(Exists("/run/mountd/base/h/data"));
  AtHost([] { Unmount("/run/host/data/sub"); });
  EXPECT_TRUE(MountsBelow("/run/host/data").empty());
}

// The mount would stay in use here after the host has unmounted it.
TEST_F(ResidenceTest, WhatIsOnAPrivateMountOfTheHostIsLetGo) {
  MountTmpfs("/run/host/real");
  ASSERT_EQ(::mount(nullptr, "/run/host/real", nullptr, MS_PRIVATE, nullptr),
            0);
  MountTmpfs("/run/host/real/inner");
  MountTmpfs("/run/host/real/inner/most");
  PrepareBase();
  EXPECT_TRUE(Exists("/run/host/real/mark"));
  EXPECT_FALSE(Exists("/run/host/real/inner/mark"));
  EXPECT_TRUE(MountsBelow("/run/host/real/inner").empty());
  // The directory below that mount is not taken for the volume.
  config_.host_volumes["deep"] = {
      "/run/host/real/inner", false, {Propagation::kPrivate}};
  const Reply refused = Attach("deep", Propagation::kPrivate);
  EXPECT_EQ(CodeOf(refused), "FailedPrecondition");
  EXPECT_NE(ErrorOf(refused).find("does not reach"), std::string::npos)
      << ErrorOf(refused);
  AtHost([] {
    EXPECT_TRUE(Exists("/run/host/real/inner/most/mark"));
    Unmount("/run/host/real/inner/most");
    Unmount("/run/host/real/inner");
    Unmount("/run/host/real");
  });
  EXPECT_TRUE(MountsBelow("/run/host/real").empty());
}

TEST_F(ResidenceTest, AHostWhoseMountsWouldNotArriveIsRefused) {
  ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  const Reply refused = Call(PlanKind::kPrepareBase);
  EXPECT_EQ(CodeOf(refused), "FailedPrecondition");
  EXPECT_NE(ErrorOf(refused).find("not shared"), std::string::npos);
  EXPECT_FALSE(Exists(paths::kNamespace));
}

TEST_F(ResidenceTest, ATaskThatEntersSeesItsMounts) {
  PrepareBase();
  ASSERT_EQ(ErrorOf(Attach("data", Propagation::kPrivate)), "");
  AtHost([] {
    EXPECT_FALSE(Exists(kTarget));
    const UniqueFd pin(::open(paths::kNamespace, O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(pin.valid());
    In(pin.get(), [] { EXPECT_TRUE(Exists(std::string(kTarget) + "/file")); });
  });
}

TEST_F(ResidenceTest, AnInboxAsAnFdFollowsItOnceItIsAttached) {
  PrepareBase();
  const auto on_inbox = [&](PlanKind kind) {
    return ErrorOf(Call(kind, [](PlanBody* body) {
      body->task = {ToWire("web"), ToWire("app")};
    }));
  };
  ASSERT_NE(on_inbox(PlanKind::kOpenInbox), "");  // there is no inbox
  ASSERT_EQ(on_inbox(PlanKind::kPrepareInbox), "");
  ASSERT_EQ(ErrorOf(Attach("data", Propagation::kPrivate, "before")), "");
  ASSERT_EQ(on_inbox(PlanKind::kOpenInbox), "");
  const UniqueFd inbox = std::move(last_fd_);
  ASSERT_TRUE(inbox.valid());
  // The task's namespace is a copy of the host's that follows nothing.
  UniqueFd task;
  AtHost([&] {
    ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
    ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    MakeDirectories("/run/task-inbox");
    const UniqueFd place(::open("/run/task-inbox", O_PATH | O_CLOEXEC));
    ASSERT_EQ(real_.AttachTree(inbox.get(), place.get()).has_value(), true);
    task.reset(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
  });
  const auto sees = [&](const std::string& name) {
    bool seen = false;
    In(task.get(), [&] { seen = Exists("/run/task-inbox/" + name + "/file"); });
    return seen;
  };
  EXPECT_TRUE(sees("before"));
  const Reply later = Attach("data", Propagation::kHostToTask, "later");
  ASSERT_EQ(ErrorOf(later), "");
  EXPECT_TRUE(sees("later"));
  AtHost([] { MountTmpfs("/run/host/data/sub"); });
  In(task.get(), [] { EXPECT_TRUE(Exists("/run/task-inbox/later/sub/mark")); });
  AtHost([] { Unmount("/run/host/data/sub"); });
  // A mount that the task makes stays in the task.
  In(task.get(), [] { MountTmpfs("/run/task-inbox/later/sub"); });
  EXPECT_FALSE(Exists("/run/mountd/base/a/web/app/later/sub/mark"));
  EXPECT_EQ(ErrorOf(Detach(later.body.mount.mount_id, "later")), "");
  EXPECT_FALSE(sees("later"));
  EXPECT_TRUE(sees("before"));
}

TEST_F(ResidenceTest, APluginsDirectoryIsOneOnBothSides) {
  PrepareBase();
  const std::string directory = "/run/mountd/base/p/p";
  ASSERT_EQ(ErrorOf(OnPlugin(PlanKind::kPreparePlugin)), "");
  ASSERT_EQ(ErrorOf(OnPlugin(PlanKind::kPreparePlugin)), "");
  AtHost([&] {
    EXPECT_EQ(MountsBelow(directory).size(), 1U);
    MakeDirectories(directory + "/publish/web/v");
    MountTmpfs(directory + "/publish/web/v");
  });
  EXPECT_TRUE(Exists(directory + "/publish/web/v/mark"));
  // A published mount there prevents the removal.
  EXPECT_EQ(CodeOf(OnPlugin(PlanKind::kRemovePlugin)), "Busy");
  // The mount may be unmounted here while the plugin is away.
  Unmount(directory + "/publish/web/v");
  AtHost([&] {
    EXPECT_FALSE(Exists(directory + "/publish/web/v/mark"));
    WriteFile(directory + "/csi.sock", "");
  });
  EXPECT_TRUE(Exists(directory + "/csi.sock"));
  ASSERT_EQ(ErrorOf(OnPlugin(PlanKind::kRemovePlugin)), "");
  ASSERT_EQ(ErrorOf(OnPlugin(PlanKind::kRemovePlugin)), "");
  EXPECT_FALSE(Exists(directory));
  AtHost([&] { EXPECT_FALSE(Exists(directory)); });
}

TEST_F(ResidenceTest, APluginThatWorksOnTheHostKeepsItsDirectory) {
  PrepareBase();
  ASSERT_EQ(ErrorOf(OnPlugin(PlanKind::kPreparePlugin)), "");
  UniqueFd held;
  AtHost(
      [&] { held.reset(::open("/run/mountd/base/p/p", O_PATH | O_CLOEXEC)); });
  EXPECT_EQ(CodeOf(OnPlugin(PlanKind::kRemovePlugin)), "Busy");
  held.reset();
  EXPECT_EQ(ErrorOf(OnPlugin(PlanKind::kRemovePlugin)), "");
}

TEST_F(ResidenceTest, NamesOfNetworksAreTheHosts) {
  PrepareBase();
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareNetworks)), "");
  std::set<std::string> mounts;
  AtHost([&] { mounts = MountsBelow("/run/netns"); });
  EXPECT_EQ(mounts.size(), 1U);
  ASSERT_EQ(ErrorOf(Attach("data", Propagation::kPrivate)), "");
  EXPECT_TRUE(Exists(kTarget));
}

TEST_F(ResidenceTest, WhatCannotReachTheHostIsNotSupported) {
  PrepareBase();
  EXPECT_EQ(CodeOf(Attach("data", Propagation::kBidirectional)),
            "NotSupported");
  Request request = AttachRequest("data", Propagation::kPrivate);
  request.body.attach.target_kind = exec::TargetKind::kDirectory;
  UniqueFd directory;
  AtHost(
      [&] { directory.reset(::open("/run/host/real", O_RDONLY | O_CLOEXEC)); });
  fds_.emplace_back(::dup(directory.get()));
  EXPECT_EQ(CodeOf(Send(request)), "NotSupported");
}

TEST_F(ResidenceTest, ChangesOnlyWhileNothingIsThere) {
  PrepareBase();
  const std::set<std::string> mounts = MountsBelow("/run/mountd");
  config_.mounts.own_namespace = false;
  StartAnew();
  const Reply refused = Call(PlanKind::kHello);
  EXPECT_EQ(CodeOf(refused), "FailedPrecondition");
  EXPECT_NE(ErrorOf(refused).find("mounts.namespace"), std::string::npos);
  // The file has the old setting again.
  config_.mounts.own_namespace = true;
  StartAnew();
  ASSERT_EQ(ErrorOf(Attach("data", Propagation::kPrivate)), "");
  Unmount(kTarget);
  ReleaseAll();
  config_.mounts.own_namespace = false;
  StartAnew();
  PrepareBase();
  EXPECT_FALSE(Exists(paths::kNamespace));
  EXPECT_EQ(MountsBelow("/run/mountd").size(), 1U);  // the base
  // The change back to a namespace of its own is refused in the same way.
  config_.mounts.own_namespace = true;
  StartAnew();
  EXPECT_EQ(CodeOf(Call(PlanKind::kPrepareBase)), "FailedPrecondition");
  EXPECT_TRUE(Exists("/run/mountd/base/a/web"));
  config_.mounts.own_namespace = false;
  StartAnew();
  ReleaseAll();
  config_.mounts.own_namespace = true;
  StartAnew();
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareBase)), "");
  AtHost([] { EXPECT_FALSE(Exists("/run/mountd/base/a")); });
}

// AcceptConfig refuses the configuration before an executor has to, and the
// accepted one stays in force.
TEST_F(ResidenceTest, AConfigurationOfTheOtherWayIsNotAcceptedWhileItIsUsed) {
  const std::string from = "/run/from.toml";
  const std::string to = "/run/mountd/mountd.toml";
  const auto accept = [&](const std::string& name) {
    std::string outcome;
    AtHost([&] {
      WriteFile(from, "[mounts]\nnamespace = \"" + name + "\"\n");
      ASSERT_EQ(::chmod(from.c_str(), 0644), 0);
      const Result<void> accepted = AcceptConfig(from, to, 0);
      outcome = accepted ? "" : std::string(CodeName(accepted.error().code));
      EXPECT_EQ(LoadConfig(to, true)->mounts.own_namespace,
                (name == "own") == accepted.has_value());
    });
    return outcome;
  };
  EXPECT_EQ(accept("own"), "");
  EXPECT_EQ(accept("host"), "");  // nothing has been made yet
  EXPECT_EQ(accept("own"), "");
  PrepareBase();
  EXPECT_EQ(accept("host"), "FailedPrecondition");
  EXPECT_EQ(accept("own"), "");
  ReleaseAll();
  {
    // The child that looks into the base is killed, so mountd cannot know.
    const KilledChild killed(KilledChild::kAtOnce);
    EXPECT_EQ(accept("host"), "FailedPrecondition");
  }
  EXPECT_EQ(accept("host"), "");
  config_.mounts.own_namespace = false;
  StartAnew();
  PrepareBase();
  EXPECT_EQ(accept("own"), "FailedPrecondition");
  ReleaseAll();
  EXPECT_EQ(accept("own"), "");
}

TEST_F(ResidenceTest, APinThatSomebodyUnmountsIsPutBack) {
  PrepareBase();
  ASSERT_EQ(ErrorOf(Attach("data", Propagation::kPrivate)), "");
  const std::string first = Pinned();
  AtHost([] {
    Unmount(paths::kNamespace);
    Unmount(paths::kNamespace);
    ASSERT_EQ(::unlink(paths::kNamespace), 0);
  });
  ASSERT_EQ(ErrorOf(Call(PlanKind::kHello)), "");
  EXPECT_EQ(Pinned(), first);
  EXPECT_TRUE(Exists(std::string(kTarget) + "/file"));
}

TEST_F(ResidenceTest, WhatIsNoNamespaceIsNotEntered) {
  WriteFile(paths::kNamespace, "");
  MountTmpfs("/run/host/real");
  WriteFile("/run/host/real/file", "");
  ASSERT_EQ(::mount("/run/host/real/file", paths::kNamespace, nullptr, MS_BIND,
                    nullptr),
            0);
  EXPECT_EQ(CodeOf(Call(PlanKind::kPrepareBase)), "FailedPrecondition");
  Unmount(paths::kNamespace);
  // The pin is a namespace of another kind.
  ASSERT_EQ(::mount(nullptr, "/run", nullptr, MS_PRIVATE, nullptr), 0);
  ASSERT_EQ(::mount("/proc/self/ns/net", paths::kNamespace, nullptr, MS_BIND,
                    nullptr),
            0);
  EXPECT_EQ(CodeOf(Call(PlanKind::kPrepareBase)), "FailedPrecondition");
  EXPECT_EQ(NamespaceOf("/proc/self/ns/mnt"), host_inode_);
}

// Each call of a first plan fails with the errno of the parameter, or is the
// last one if that is 0. The next executor finishes what is there, and all of
// it can be undone.
class ResidenceFailures : public ResidenceTest,
                          public ::testing::WithParamInterface<int> {
 protected:
  bool IsKilled() const { return GetParam() == 0; }
};

INSTANTIATE_TEST_SUITE_P(, ResidenceFailures,
                         ::testing::ValuesIn(exec::kEndOrErrorsOfAnyCall),
                         [](const auto& test) {
                           return test.param == 0
                                      ? std::string("Killed")
                                      : ::strerrorname_np(test.param);
                         });

TEST_P(ResidenceFailures, OfTheFirstPlan) {
  const std::set<std::string> before = MountsBelow("/run/mountd");
  bool reached = true;
  for (std::size_t k = 1; reached; ++k) {
    kernel_.FailOrDieAt(k, GetParam());
    const Reply reply = Call(PlanKind::kPrepareBase);
    reached = kernel_.calls().size() >= k;
    SCOPED_TRACE("call " + std::to_string(k) + ": " +
                 (reached ? kernel_.calls()[k - 1] : ""));
    kernel_.FailAt(0, 0);
    if (reply.code != 0 && !IsKilled()) {
      // The same executor finishes the plan.
      ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareBase)), "");
      ASSERT_EQ(NamespaceOf("/proc/self/ns/mnt"), Pinned());
    }
    StartAnew();
    PrepareBase();
    ASSERT_EQ(NamespaceOf("/proc/self/ns/mnt"), Pinned());
    AtHost([] { ASSERT_FALSE(Exists("/run/mountd/base/a")); });
    ReleaseAll();
    config_.mounts.own_namespace = false;
    StartAnew();
    ASSERT_EQ(ErrorOf(Call(PlanKind::kHello)), "");
    ASSERT_EQ(MountsBelow("/run/mountd"), before);
    ASSERT_FALSE(Exists(paths::kNamespace));
    config_.mounts.own_namespace = true;
    StartAnew();
  }
  ExpectFailed({"NewMountNamespace"});
}

TEST_P(ResidenceFailures, OfAPluginsDirectory) {
  PrepareBase();
  std::set<std::string> host;
  AtHost([&] { host = MountsBelow("/"); });
  bool reached = true;
  for (std::size_t k = 1; reached; ++k) {
    kernel_.FailOrDieAt(k, GetParam());
    OnPlugin(PlanKind::kPreparePlugin);
    reached = kernel_.calls().size() >= k;
    SCOPED_TRACE("call " + std::to_string(k) + ": " +
                 (reached ? kernel_.calls()[k - 1] : ""));
    kernel_.FailAt(0, 0);
    if (IsKilled()) {
      StartAnew();
    }
    ASSERT_EQ(ErrorOf(OnPlugin(PlanKind::kPreparePlugin)), "");
    AtHost([] { ASSERT_EQ(MountsBelow("/run/mountd/base/p").size(), 1U); });
    ASSERT_EQ(ErrorOf(OnPlugin(PlanKind::kRemovePlugin)), "");
    AtHost([&] { ASSERT_EQ(MountsBelow("/"), host); });
  }
}

}  // namespace
}  // namespace mountd::testing
