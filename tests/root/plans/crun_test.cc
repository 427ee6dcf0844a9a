// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Containers of a real runtime, and what the executor sees of their mounts:
// some lose propagation without an error.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/root/cgroup_fixture.h"
#include "tests/support/naive.h"

namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;
using exec::TaskMount;

constexpr char kBundle[] = "/run/bundle";
constexpr char kContainer[] = "mountd-test";

int RunProgram(const std::vector<std::string>& command) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::vector<char*> arguments;
    for (const std::string& word : command) {
      arguments.push_back(const_cast<char*>(word.c_str()));
    }
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

int Crun(std::vector<std::string> arguments) {
  const std::vector<std::string> global = {"crun", "--root=/run/crun",
                                           "--cgroup-manager=disabled"};
  arguments.insert(arguments.begin(), global.begin(), global.end());
  return RunProgram(arguments);
}

class CrunTask : public CgroupFixture {
 protected:
  void SetUp() override {
    CgroupFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    if (RunProgram({"sh", "-c", "command -v crun >/dev/null"}) != 0) {
      GTEST_SKIP() << "crun is not installed";
    }
    cgroup_ = MakeCgroup("web");
    const std::string root = std::string(kBundle) + "/rootfs";
    for (const char* path : {"/usr", "/proc", "/dev", "/data", "/more"}) {
      MakeDirectories(root + path);
    }
    for (const char* name : {"bin", "lib", "lib64"}) {
      std::filesystem::create_symlink(std::string("usr/") + name,
                                      root + "/" + name);
    }
    PrepareBase();
  }
  void TearDown() override {
    if (cgroup_ != 0) {
      Crun({"delete", "--force", kContainer});
    }
    CgroupFixture::TearDown();
  }

  // Creates a container that has the target at /data, mounted with `option`.
  // The container has its mounts, and waits to be started.
  void Create(const std::string& rootfs_propagation, const std::string& option,
              bool own_users = false) {
    std::ofstream(std::string(kBundle) + "/config.json")
        << R"({"ociVersion": "1.0.0", "root": {"path": "rootfs"},
  "process": {"user": {"uid": 0, "gid": 0}, "cwd": "/", "env": ["PATH=/bin"],
              "args": ["/bin/sleep", "60"]},
  "mounts": [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "dev"},
    {"destination": "/usr", "type": "none", "source": "/usr",
     "options": ["rbind", "ro"]},
    {"destination": "/data", "type": "none", "source": ")"
        << kTarget << R"(", "options": ["rbind", ")" << option << R"("]}],
  "linux": {)"
        << (rootfs_propagation.empty()
                ? ""
                : "\"rootfsPropagation\": \"" + rootfs_propagation + "\", ")
        << (own_users ? R"("uidMappings":
      [{"containerID": 0, "hostID": 0, "size": 65536}], "gidMappings":
      [{"containerID": 0, "hostID": 0, "size": 65536}], )"
                      : "")
        << R"("namespaces": [{"type": "mount"}, {"type": "pid"},
      {"type": "ipc"}, {"type": "uts"})"
        << (own_users ? R"(, {"type": "user"})" : "") << "]}}";
    // With the cgroup manager "disabled" the container stays in its maker's
    // cgroup.
    Spawn("web", [] {
      return Crun({"create", std::string("--bundle=") + kBundle,
                   "--pid-file=/run/crun.pid", kContainer}) == 0;
    });
    pid_t pid = -1;
    std::ifstream("/run/crun.pid") >> pid;
    pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
    ASSERT_TRUE(pidfd_.valid());
  }

  exec::MountState Mounted(Propagation propagation) {
    const Reply reply = Attach("data", propagation);
    EXPECT_EQ(ErrorOf(reply), "");
    return reply.body.mount;
  }
  exec::TaskState Verify(const exec::MountState& ours) {
    fds_.clear();
    fds_.emplace_back(::dup(pidfd_.get()));
    const Reply reply = Call(PlanKind::kVerifyTask, [&](PlanBody* body) {
      body->verify_task = exec::VerifyTaskPlan{};
      body->verify_task.cgroup = cgroup_;
      body->verify_task.count = 1;
      body->verify_task.mount_ids[0] = ours.mount_id;
    });
    fds_.clear();
    EXPECT_EQ(ErrorOf(reply), "");
    EXPECT_EQ(reply.body.task.mounts[0].found, 1U);
    return reply.body.task;
  }
  bool ContainerSees(const std::string& path) const {
    const pid_t child = ::fork();
    if (child == 0) {
      ::_exit(::setns(pidfd_.get(), CLONE_NEWNS) == 0 && Exists(path) ? 0 : 1);
    }
    int status = 1;
    ::waitpid(child, &status, 0);
    return status == 0;
  }

  std::uint64_t cgroup_ = 0;
  UniqueFd pidfd_;
};

// Fact: the runtime's rootfsPropagation decides, not the mount's option. A
// naive daemon believes the runtime, which has reported success.
TEST_F(CrunTask, WithoutRootfsPropagationFollowsNothing) {
  for (const char* rootfs_propagation : {"", "rprivate"}) {
    SCOPED_TRACE(rootfs_propagation);
    const exec::MountState ours = Mounted(Propagation::kHostToTask);
    ASSERT_NO_FATAL_FAILURE(Create(rootfs_propagation, "rslave"));
    const TaskMount seen = Verify(ours).mounts[0];
    EXPECT_EQ(seen.master, 0U);
    EXPECT_EQ(seen.peer_group, 0U);
    MountTmpfs("/run/host/data/sub");
    EXPECT_NAIVE(!ContainerSees("/data/sub/mark"));
    Unmount("/run/host/data/sub");
    EXPECT_EQ(Crun({"delete", "--force", kContainer}), 0);
    EXPECT_EQ(ErrorOf(Detach(ours.mount_id)), "");
  }
}

TEST_F(CrunTask, WithASlaveRootFollowsTheHost) {
  const exec::MountState ours = Mounted(Propagation::kHostToTask);
  ASSERT_NO_FATAL_FAILURE(Create("rslave", "rslave"));
  EXPECT_EQ(Verify(ours).mounts[0].master, ours.master);
  MountTmpfs("/run/host/data/sub");
  EXPECT_TRUE(ContainerSees("/data/sub/mark"));
  Unmount("/run/host/data/sub");
}

TEST_F(CrunTask, WithASlaveRootIsNoPeer) {
  const exec::MountState ours = Mounted(Propagation::kBidirectional);
  ASSERT_NO_FATAL_FAILURE(Create("rslave", "rshared"));
  const TaskMount seen = Verify(ours).mounts[0];
  EXPECT_NE(seen.peer_group, ours.peer_group);
  EXPECT_EQ(seen.master, ours.peer_group);
}

TEST_F(CrunTask, WithASharedRootIsAPeer) {
  const exec::MountState ours = Mounted(Propagation::kBidirectional);
  ASSERT_NO_FATAL_FAILURE(Create("rshared", "rshared"));
  const exec::TaskState state = Verify(ours);
  EXPECT_EQ(state.mounts[0].peer_group, ours.peer_group);
  EXPECT_EQ(state.has_own_user_namespace, 0U);
}

// A mount that mountd makes in a created container has the propagation that was
// asked for, whatever the runtime does with its own mounts.
TEST_F(CrunTask, IsGivenAMountBeforeItIsStarted) {
  config_.rules.back().containers = true;
  Mounted(Propagation::kPrivate);
  ASSERT_NO_FATAL_FAILURE(Create("", "rprivate"));
  for (const Propagation mode :
       {Propagation::kHostToTask, Propagation::kBidirectional}) {
    SCOPED_TRACE(static_cast<int>(mode));
    exec::Request request = AttachRequest("data", mode, "more");
    request.body.attach.target_kind = exec::TargetKind::kContainer;
    request.body.attach.container = exec::Container(
        cgroup_, "/more", static_cast<std::uint32_t>(::getpid()));
    fds_.clear();
    fds_.emplace_back(::dup(pidfd_.get()));
    const Reply reply = Send(request);
    fds_.clear();
    ASSERT_EQ(ErrorOf(reply), "");
    if (mode == Propagation::kHostToTask) {
      ASSERT_EQ(Crun({"start", kContainer}), 0);
    }
    MountTmpfs("/run/host/data/sub");
    EXPECT_EQ(Crun({"exec", kContainer, "/bin/test", "-e", "/more/sub/mark"}),
              0);
    Unmount("/run/host/data/sub");
    EXPECT_NE(Crun({"exec", kContainer, "/bin/test", "-e", "/more/sub/mark"}),
              0);
    ASSERT_EQ(ErrorOf(Detach(reply.body.mount.mount_id, "more")), "");
    EXPECT_NE(Crun({"exec", kContainer, "/bin/test", "-e", "/more/file"}), 0);
  }
}

// mountd's own bidirectional mount in the container is a shared mount. A mount
// below it would reach the host volume and all its users.
TEST_F(CrunTask, ASharedMountInItIsNoPlaceForAnother) {
  config_.rules.back().containers = true;
  Mounted(Propagation::kBidirectional);
  ASSERT_NO_FATAL_FAILURE(Create("rshared", "rshared"));
  exec::Request request = AttachRequest("ro", Propagation::kPrivate, "more");
  request.body.attach.target_kind = exec::TargetKind::kContainer;
  request.body.attach.container = exec::Container(
      cgroup_, "/data/sub", static_cast<std::uint32_t>(::getpid()));
  const auto send = [&] {
    fds_.clear();
    fds_.emplace_back(::dup(pidfd_.get()));
    const Reply reply = Send(request);
    fds_.clear();
    return reply;
  };
  EXPECT_NE(ErrorOf(send()).find("shared mount"), std::string::npos);
  EXPECT_FALSE(real_.Stat(-1, "/run/host/data/sub")->mount_root);
  // All of the container's root is shared, so no other place there works
  // either.
  request.body.attach.container =
      exec::Container(cgroup_, "/more", static_cast<std::uint32_t>(::getpid()));
  const Reply reply = send();
  EXPECT_TRUE(reply.code == 0 ||
              ErrorOf(reply).find("shared mount") != std::string::npos);
  if (reply.code == 0) {
    EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id, "more")), "");
  }
  // The naive way mounts there, because the runtime has reported success.
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(::setns(pidfd_.get(), CLONE_NEWNS) == 0 &&
                    ::mount("x", "/data/sub", "tmpfs", 0, nullptr) == 0
                ? 0
                : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  EXPECT_NAIVE(status == 0 && real_.Stat(-1, "/run/host/data/sub")->mount_root);
  Unmount("/run/host/data/sub");
}

// This runtime clones the mount before it enters the user namespace, so the
// mount is a peer even there. The executor must report what happens.
TEST_F(CrunTask, InAUserNamespaceIsSeenAsItBehaves) {
  const exec::MountState ours = Mounted(Propagation::kBidirectional);
  ASSERT_NO_FATAL_FAILURE(Create("rshared", "rshared", true));
  const exec::TaskState state = Verify(ours);
  EXPECT_EQ(state.has_own_user_namespace, 1U);
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(::setns(pidfd_.get(), CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
                    ::mount("x", "/data/sub", "tmpfs", 0, nullptr) == 0
                ? 0
                : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  const auto host = real_.Stat(-1, "/run/host/data/sub");
  ASSERT_TRUE(host.has_value());
  EXPECT_EQ(state.mounts[0].peer_group == ours.peer_group, host->mount_root);
  EXPECT_TRUE(host->mount_root || state.mounts[0].master == ours.peer_group);
}

}  // namespace
}  // namespace mountd::testing
