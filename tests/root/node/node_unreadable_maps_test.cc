// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A task keeps whoever reads its memory maps waiting (UnreadableMaps). mountd
// answers each call in time, and serves other users meanwhile.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "tests/support/eventually.h"
#include "tests/support/naive.h"
#include "tests/support/node/node_fixture.h"
#include "tests/support/servers/fuse_server.h"
#include "tests/support/unreadable_maps.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;

constexpr char kCgroups[] = "/sys/fs/cgroup";
constexpr char kServed[] = "/run/fuse";
constexpr char kMapped[] = "/run/host/data/file";
constexpr uid_t kOther = 60012;

// A search may take half of a plan's time, and half of that for one process.
std::string ConfigFor(const std::string& cgroup) {
  return R"(
[host_volume.data]
path = "/run/host/data"
[[rule]]
users = ["agent", "60012"]
host_volumes = ["*"]
cgroups = [")" +
         cgroup + R"("]
[timeouts]
plan_ms = 2000
)";
}

agent::BindMountSpec SpecOf(agent::SourceType type, const std::string& source) {
  agent::BindMountSpec spec;
  spec.task = "app";
  spec.name = "data";
  spec.source_type = type;
  spec.source = source;
  return spec;
}

class NodeUnreadableMaps : public NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    for (const char* path : {"/run/host/data", kServed}) {
      fs::create_directories(path);
    }
    // A file system of its own, because the search for copies reads maps only
    // for such.
    ASSERT_EQ(::mount("tmpfs", "/run/host/data", "tmpfs", 0, nullptr), 0);
    ASSERT_TRUE(UniqueFd(::creat(kMapped, 0644)).valid());
    while (::umount2(kCgroups, MNT_DETACH) == 0) {
    }
    ASSERT_EQ(::mount("cgroup2", kCgroups, "cgroup2", 0, nullptr), 0);
    const std::string cgroup = "/mountd-test-" + std::to_string(::getpid());
    cgroup_ = kCgroups + cgroup;
    ASSERT_EQ(::mkdir(cgroup_.c_str(), 0755), 0);
    server_ = std::make_unique<FuseServer>(kServed);
    ASSERT_TRUE(server_->valid()) << errno;
    maps_ = std::make_unique<UnreadableMaps>(server_.get(),
                                             std::string(kServed) + "/file");
    ASSERT_NO_FATAL_FAILURE(StartNode(ConfigFor(cgroup)));
    ASSERT_NO_FATAL_FAILURE(PrepareBoth());
    ASSERT_NO_FATAL_FAILURE(StartTask());
  }
  void TearDown() override {
    EndTask();
    other_.reset();
    // A process that has just ended may stay in the cgroup for a moment.
    EXPECT_TRUE(cgroup_.empty() || Eventually([&] {
                  return ::rmdir(cgroup_.c_str()) == 0 || errno == ENOENT;
                }));
    NodeFixture::TearDown();
  }

  // Makes an allocation of the agent with the cgroup, and one of another user
  // without a cgroup.
  void PrepareBoth() {
    const UniqueFd cgroup(
        ::open(cgroup_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    ASSERT_EQ(
        MessageOf(client_->PrepareAllocation("web", {.cgroup = cgroup.get()})),
        "Ok");
    ASSERT_EQ(MessageOf(client_->BindMount(
                  "web", SpecOf(agent::SourceType::kHostVolume, "data"))),
              "Ok");
    auto other = node_->ConnectAs(kOther);
    ASSERT_EQ(MessageOf(other), "Ok");
    other_.emplace(*std::move(other));
    ASSERT_EQ(MessageOf(other_->PrepareAllocation("theirs")), "Ok");
  }
  // Starts the task in the agent's cgroup. It maps a file of the volume, too.
  void StartTask() {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const UniqueFd ready(ends[0]);
    UniqueFd done(ends[1]);
    task_ = ::fork();
    if (task_ == 0) {
      const char outcome = Become() ? 'y' : 'n';
      (void)!::write(done.get(), &outcome, 1);
      for (;;) {
        ::pause();
      }
    }
    done.reset();
    char outcome = 0;
    ASSERT_EQ(::read(ready.get(), &outcome, 1), 1);
    ASSERT_EQ(outcome, 'y') << "the task could not do it";
    ASSERT_TRUE(maps_->Await());
    pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, task_, 0U)));
  }
  bool Become() const {
    const UniqueFd join(
        ::open((cgroup_ + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
    const UniqueFd file(::open(kMapped, O_RDONLY | O_CLOEXEC));
    return ::write(join.get(), "0", 1) == 1 &&
           ::mmap(nullptr, 1, PROT_READ, MAP_SHARED, file.get(), 0) !=
               MAP_FAILED &&
           ::setresuid(kAgentUid, kAgentUid, kAgentUid) == 0 && maps_->Begin();
  }
  // The task ends only after its server.
  void EndTask() {
    if (server_ != nullptr) {
      server_->Die();
    }
    if (task_ > 0) {
      ::kill(task_, SIGKILL);
      ::waitpid(task_, nullptr, 0);
      task_ = -1;
    }
  }

  // True if a child of an executor waits for the task's maps.
  static bool IsReaderWaiting() {
    const std::vector<UniqueFd> executors = Node::Processes("mountd-exec");
    return std::any_of(
        executors.begin(), executors.end(), [](const UniqueFd& executor) {
          std::string line;
          std::getline(
              std::ifstream("/proc/" + std::to_string(Node::PidOf(executor)) +
                            "/stat"),
              line);
          return line.find(") D ") != std::string::npos;
        });
  }
  // Another user's search looks at all processes, because the allocation has no
  // cgroup.
  std::string SearchAsOther() {
    agent::BindMountSpec spec = SpecOf(agent::SourceType::kTmpfs, "");
    spec.tmpfs = agent::TmpfsOptions{.size = 4096};
    const auto bound = other_->BindMount("theirs", spec);
    if (!bound) {
      return MessageOf(bound);
    }
    const auto holders =
        other_->ListHolders("theirs", "app", "data", /*node=*/true);
    const auto unmounted = other_->Unmount("theirs", "app", "data");
    return holders ? MessageOf(unmounted) : MessageOf(holders);
  }
  // Makes the call, which meets the task, while the other user makes calls.
  // Returns the call's outcome.
  template <typename T>
  Result<T> WhileOthersAreServed(std::function<Result<T>()> call) {
    auto outcome = std::async(std::launch::async, std::move(call));
    const auto is_answered = [&outcome] {
      return outcome.wait_for(std::chrono::seconds(0)) ==
             std::future_status::ready;
    };
    EXPECT_TRUE(Eventually([&] { return IsReaderWaiting() || is_answered(); }));
    do {
      EXPECT_EQ(SearchAsOther(), "Ok");
    } while (!is_answered());
    return outcome.get();
  }
  void ExpectBusyWithTheTask(const Result<void>& outcome) const {
    EXPECT_EQ(Outcome(outcome), "Busy");
    EXPECT_NE(MessageOf(outcome).find("process " + std::to_string(task_) +
                                      " could not be inspected in time"),
              std::string::npos)
        << MessageOf(outcome);
  }

  std::string cgroup_;
  std::unique_ptr<FuseServer> server_;
  std::unique_ptr<UnreadableMaps> maps_;
  pid_t task_ = -1;
  UniqueFd pidfd_;
  std::optional<agent::Client> other_;
};

TEST_F(NodeUnreadableMaps, HoldUpNoOtherUserAndAreNamed) {
  EXPECT_NAIVE(NaiveReaderWaits(task_));
  const auto holders = WhileOthersAreServed<agent::Holders>(
      [&] { return client_->ListHolders("web", "app", "data"); });
  ASSERT_EQ(MessageOf(holders), "Ok");
  EXPECT_FALSE(holders->complete);
  ExpectBusyWithTheTask(WhileOthersAreServed<void>(
      [&] { return client_->Unmount("web", "app", "data"); }));
  ExpectBusyWithTheTask(WhileOthersAreServed<void>([&]() -> Result<void> {
    MOUNTD_TRY(client_->ReleaseAllocation("web"));
    return Ok();
  }));
  // A look at the task that needs no maps meets nothing.
  EXPECT_EQ(MessageOf(client_->VerifyTask("web", "app", pidfd_.get())), "Ok");
  const auto capabilities = client_->GetCapabilities();
  ASSERT_EQ(MessageOf(capabilities), "Ok");
  EXPECT_EQ(capabilities->stuck_executors, 0U);
  EndTask();
  EXPECT_EQ(MessageOf(client_->ReleaseAllocation("web")), "Ok");
  EXPECT_EQ(MessageOf(other_->ReleaseAllocation("theirs")), "Ok");
  EXPECT_EQ(MountPointsUnder("/run/mountd/base").size(), 1U);
}

// A caller who does not want to wait for the task need not end it.
TEST_F(NodeUnreadableMaps, AReleaseThatIgnoresTasksIsDone) {
  EXPECT_NAIVE(NaiveReaderWaits(task_));
  EXPECT_EQ(
      MessageOf(client_->ReleaseAllocation("web", agent::OnTasks::kIgnore)),
      "Ok");
  EXPECT_TRUE(MountPointsUnder("/run/mountd/base/a").empty());
}

}  // namespace
}  // namespace mountd::testing
