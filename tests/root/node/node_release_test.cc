// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Tear-downs while a task has a copy of its own of the volume, such as its
// runtime's bind mount. mountd neither detaches a volume nor reports it as
// detached while a process on the node can write to it.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <future>
#include <vector>

#include "mountd/kernel/real_kernel.h"
#include "tests/root/node/node_csi_fixture.h"
#include "tests/support/copying_task.h"
#include "tests/support/naive.h"

namespace mountd::testing {
namespace {

using agent::OnTasks;
using Kind = CopyingTask::Kind;

std::string WithTime(std::string config) {
  const std::string line = "rpc_retries_ms = 1\n";
  config.replace(config.find(line), line.size(), "rpc_retries_ms = 60000\n");
  return config;
}

bool IsThere(const std::string& path) {
  struct stat st = {};
  return ::stat(path.c_str(), &st) == 0;
}

// True if the kernel lists mount namespaces that no process is in, and all
// mounts of each (Linux 6.12).
bool TellsNamespaces() {
  return exec::RealKernel().MountNamespaces().has_value();
}

class NodeRelease : public NodeCsi {
 protected:
  NodeRelease() { config_ = WithTime(config_); }

  // Publishes the volume. Returns its path on the host. With `own` the volume
  // is a file system of its own.
  std::string PublishOne(bool own) {
    Tell("NodePublishVolume", own ? "tmpfs" : "");
    const auto published = client_->PublishVolume("web", Volume());
    EXPECT_EQ(MessageOf(published), "Ok");
    Tell("", "");
    return published ? published->host_path : "";
  }
  void Restart() {
    Node::Kill(Node::Processes("mountd"));
    Connect();
  }
  bool BecomesDetached() {
    return Eventually([&] {
      const auto later = client_->GetReceipt("web");
      return later && later->node_detached && later->owed.empty();
    });
  }
};

// The attack succeeds against a daemon that takes a successful unmount as the
// end of all use.
TEST_F(NodeRelease, AnUnmountAloneLosesData) {
  EXPECT_NAIVE(NaiveReleaseLosesData("/run/host/a", Kind::kPrivate));
}

TEST_F(NodeRelease, IsRefusedWhileATaskHasACopy) {
  for (const bool own : {false, true}) {
    for (const Kind kind :
         {Kind::kPrivate, Kind::kShared, Kind::kUserNamespace, Kind::kOpenFile,
          Kind::kHandedOn, Kind::kThread, Kind::kThreadAlone, Kind::kChrooted,
          Kind::kNamespace}) {
      if (kind == Kind::kOpenFile && !own) {
        continue;  // other users have the file system, too
      }
      const bool is_hidden =
          kind == Kind::kChrooted || kind == Kind::kNamespace;
      if (is_hidden && !TellsNamespaces()) {
        continue;
      }
      SCOPED_TRACE(std::to_string(static_cast<int>(kind)) +
                   (own ? ", own" : ""));
      EXPECT_NAIVE(NaiveReleaseLosesData("/run/host/a", kind));
      const std::string path = PublishOne(own);
      CopyingTask task(path, kind);
      ASSERT_GT(task.pid(), 0);
      const auto unpublished = client_->UnpublishVolume("web", "data");
      EXPECT_EQ(Outcome(unpublished), "Busy");
      const std::string who = kind == Kind::kNamespace
                                  ? "a mount namespace that no process is in"
                                  : "pid " + std::to_string(task.pid());
      EXPECT_NE(MessageOf(unpublished).find(who), std::string::npos)
          << MessageOf(unpublished);
      const auto released = client_->ReleaseAllocation("web");
      EXPECT_EQ(Outcome(released), "Busy") << MessageOf(released);
      // Nothing has changed, and no tear-down is pending.
      EXPECT_EQ(Recorded(), "staged published");
      EXPECT_TRUE(client_->ListOwed()->empty());
      EXPECT_EQ(task.Write("one"), 0);
      EXPECT_TRUE(IsThere(path + "/one"));
      task.End();
      EXPECT_EQ(Unpublish(), "Ok");
      EXPECT_TRUE(NothingIsLeft()) << Recorded();
    }
  }
}

// mountd can check no more than the plugin's answer and that a mount is there.
TEST_F(NodeRelease, OfWhatThePluginMountedInstead) {
  for (const char* rpc : {"NodeStageVolume", "NodePublishVolume"}) {
    SCOPED_TRACE(rpc);
    Tell(rpc, "tmpfs");
    EXPECT_EQ(Publish(), "Ok");
    EXPECT_EQ(Recorded(), "staged published");
    Tell("", "");
    ExpectReleased();
  }
}

TEST_F(NodeRelease, AnUnmountIsRefusedWhileATaskHasACopy) {
  EXPECT_NAIVE(NaiveReleaseLosesData("/run/host/a", Kind::kPrivate));
  agent::BindMountSpec spec;
  spec.task = "task";
  spec.name = "tmp";
  spec.source_type = agent::SourceType::kTmpfs;
  spec.tmpfs = agent::TmpfsOptions{.size = 1U << 20U};
  const auto mounted = client_->BindMount("web", spec);
  ASSERT_EQ(MessageOf(mounted), "Ok");
  CopyingTask task("/run/mountd/base/a/web/task/tmp", Kind::kPrivate);
  ASSERT_GT(task.pid(), 0);
  const auto unmounted = client_->Unmount("web", "task", "tmp");
  EXPECT_EQ(Outcome(unmounted), "Busy");
  EXPECT_NE(MessageOf(unmounted).find("pid " + std::to_string(task.pid())),
            std::string::npos)
      << MessageOf(unmounted);
  EXPECT_EQ(task.Write("one"), 0);
  EXPECT_TRUE(IsThere("/run/mountd/base/a/web/task/tmp/one"));
  task.End();
  EXPECT_EQ(MessageOf(client_->Unmount("web", "task", "tmp")), "Ok");
}

TEST_F(NodeRelease, WaitsForTheTasks) {
  const std::string path = PublishOne(false);
  CopyingTask task(path, Kind::kPrivate);
  ASSERT_GT(task.pid(), 0);
  auto other = node_->Connect();
  ASSERT_EQ(MessageOf(other), "Ok");
  auto released = std::async(std::launch::async, [&] {
    return other->ReleaseAllocation("web", OnTasks::kWait);
  });
  EXPECT_TRUE(Eventually([&] {
    const auto all = client_->ListOperations();
    return all && std::any_of(all->begin(), all->end(), [](const auto& one) {
             return one.method == "ReleaseAllocation" && one.step == "tasks";
           });
  }));
  EXPECT_EQ(task.Write("meanwhile"), 0);
  EXPECT_EQ(Recorded(), "staged published");
  task.End();
  const Result<agent::Receipt> receipt = released.get();
  ASSERT_EQ(MessageOf(receipt), "Ok");
  EXPECT_TRUE(receipt->node_detached);
  EXPECT_TRUE(NothingIsLeft() || !client_->GetAllocation("web"));
}

TEST_F(NodeRelease, IgnoringTasksTellsThatItIsNotDetached) {
  for (const bool own : {false, true}) {
    for (const Kind kind : {Kind::kPrivate, Kind::kOpenFile}) {
      if (kind == Kind::kOpenFile && !own) {
        continue;
      }
      SCOPED_TRACE(std::to_string(static_cast<int>(kind)) +
                   (own ? ", own" : ""));
      EXPECT_NAIVE(NaiveReleaseLosesData("/run/host/a", kind));
      ASSERT_EQ(Outcome(client_->PrepareAllocation("web")), "Ok");
      const std::string path = PublishOne(own);
      CopyingTask task(path, kind);
      ASSERT_GT(task.pid(), 0);
      const std::size_t unstaged = Asked("NodeUnstageVolume");
      const auto receipt = client_->ReleaseAllocation("web", OnTasks::kIgnore);
      ASSERT_EQ(MessageOf(receipt), "Ok");
      EXPECT_FALSE(receipt->node_detached);
      EXPECT_EQ(receipt->owed.size(), 1U);
      // The plugin detaches nothing while the task can write, even after a
      // restart.
      for (int round = 0; round < 2; ++round) {
        EXPECT_EQ(task.Write("late" + std::to_string(round)), 0);
        const auto owed = client_->ListOwed();
        ASSERT_EQ(MessageOf(owed), "Ok");
        ASSERT_EQ(owed->size(), 1U);
        EXPECT_EQ(owed->front().kind, "unstage");
        EXPECT_NE(
            owed->front().reason.find("pid " + std::to_string(task.pid())),
            std::string::npos)
            << owed->front().reason;
        EXPECT_EQ(Asked("NodeUnstageVolume"), unstaged);
        const auto later = client_->GetReceipt("web");
        EXPECT_TRUE(later && !later->node_detached);
        Restart();
      }
      task.End();
      EXPECT_TRUE(BecomesDetached());
      EXPECT_EQ(Asked("NodeUnstageVolume"), unstaged + 1);
      EXPECT_TRUE(client_->ListOwed()->empty());
      EXPECT_EQ(MountPointsUnder(kFaultDirectory).size(), 1U);
    }
  }
}

TEST_F(NodeRelease, AnUnpublishThatIgnoresTasksIsOwedToo) {
  const std::string path = PublishOne(false);
  CopyingTask task(path, Kind::kPrivate);
  ASSERT_GT(task.pid(), 0);
  EXPECT_EQ(Outcome(client_->UnpublishVolume("web", "data", OnTasks::kIgnore)),
            "Ok");
  EXPECT_EQ(client_->ListOwed()->size(), 1U);
  // The next user has to wait, although the copy belongs to this allocation's
  // task.
  EXPECT_EQ(Publish(), "Busy");
  const auto receipt = client_->ReleaseAllocation("web");
  ASSERT_EQ(MessageOf(receipt), "Ok");
  EXPECT_FALSE(receipt->node_detached);
  task.End();
  EXPECT_TRUE(BecomesDetached());
}

// A mount that goes by propagation is no copy, because the task loses it, too.
TEST_F(NodeRelease, WhatGoesByPropagationIsNoCopy) {
  const std::string path = PublishOne(false);
  ASSERT_EQ(MessageOf(client_->BindMount(
                "web", {.task = "app",
                        .name = "data",
                        .source_type = agent::SourceType::kVolume,
                        .source = "data",
                        .task_path = "/data"})),
            "Ok");
  // The namespace follows the host's, as that of a sandboxed service does.
  const pid_t task = ::fork();
  if (task == 0) {
    const bool ok =
        ::unshare(CLONE_NEWNS) == 0 &&
        ::mount(nullptr, "/", nullptr, MS_SLAVE | MS_REC, nullptr) == 0;
    ::kill(::getpid(), ok ? SIGSTOP : SIGKILL);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(task, &status, WUNTRACED), task);
  ASSERT_TRUE(WIFSTOPPED(status));
  const auto receipt = client_->ReleaseAllocation("web");
  EXPECT_EQ(MessageOf(receipt), "Ok");
  EXPECT_TRUE(receipt && receipt->node_detached);
  ::kill(task, SIGKILL);
  ::waitpid(task, nullptr, 0);
}

// Holds a file of a FUSE mount that only its user may access. The kernel
// refuses to show root such a file.
bool HoldsAFileOfAUsersMount() {
  const int server = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
  const std::string options = "fd=" + std::to_string(server) +
                              ",rootmode=40000,user_id=1000,group_id=1000";
  ::mkdir(CopyingTask::kPlace, 0755);
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_SLAVE | MS_REC, nullptr) != 0 ||
      ::mount("user", CopyingTask::kPlace, "fuse", MS_NOSUID | MS_NODEV,
              options.c_str()) != 0) {
    return false;
  }
  const int file = ::open(CopyingTask::kPlace, O_PATH | O_CLOEXEC);
  struct stat st = {};
  return file >= 0 && ::fstat(file, &st) != 0 && errno == EACCES;
}

TEST_F(NodeRelease, AUsersOwnFuseMountHoldsUpNobody) {
  PublishOne(/*own=*/true);
  const pid_t user = ::fork();
  if (user == 0) {
    ::kill(::getpid(), HoldsAFileOfAUsersMount() ? SIGSTOP : SIGKILL);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(user, &status, WUNTRACED), user);
  EXPECT_NAIVE(WIFSTOPPED(status));
  EXPECT_EQ(Unpublish(), "Ok");
  ::kill(user, SIGKILL);
  ::waitpid(user, nullptr, 0);
}

TEST_F(NodeRelease, AnotherUsersCopiesKeepNobody) {
  ASSERT_EQ(Outcome(client_->PrepareAllocation("other")), "Ok");
  agent::VolumeSpec spec = Volume();
  spec.usage.access_mode = "multi-node-multi-writer";
  const auto mine = client_->PublishVolume("web", spec);
  ASSERT_EQ(MessageOf(mine), "Ok");
  const auto theirs = client_->PublishVolume("other", spec);
  ASSERT_EQ(MessageOf(theirs), "Ok");
  CopyingTask task(theirs->host_path, Kind::kPrivate);
  ASSERT_GT(task.pid(), 0);
  EXPECT_EQ(Unpublish(), "Ok");
  EXPECT_EQ(Outcome(client_->UnpublishVolume("other", "data")), "Busy");
  task.End();
  EXPECT_EQ(Outcome(client_->UnpublishVolume("other", "data")), "Ok");
  EXPECT_EQ(MessageOf(client_->ReleaseAllocation("other")), "Ok");
}

}  // namespace
}  // namespace mountd::testing
