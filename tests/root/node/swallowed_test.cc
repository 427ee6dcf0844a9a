// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A file server reads requests and never answers them. An executor that waits
// for such an answer does not end by any signal. mountd abandons the executor,
// counts it for its user, and serves everybody else.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/naive.h"
#include "tests/support/node/node_fixture.h"
#include "tests/support/servers/fuse_server.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;

constexpr char kServed[] = "/run/host/fuse";
constexpr uid_t kOther = 60012;
// The number of stuck executors at which mountd refuses a user
// (ExecutorPool::Options).
constexpr std::size_t kMostOfAUser = 16;

// Declares one directory of the server under many names, because mountd runs
// few plans at once on one volume.
std::string Config() {
  std::string text = R"(
[host_volume.good]
path = "/run/host/good"
[[rule]]
users = ["agent", "60012"]
host_volumes = ["*"]
[timeouts]
)";
  // A plan must not be abandoned before it has begun, which takes longer in an
  // emulated machine.
  text += std::getenv("MOUNTD_VM") != nullptr ? "plan_ms = 10000\n"
                                              : "plan_ms = 1000\n";
  for (std::size_t i = 0; i < kMostOfAUser; ++i) {
    text += "[host_volume.v" + std::to_string(i) + "]\npath = \"" + kServed +
            "/dir\"\n";
  }
  return text;
}

std::string LineOf(pid_t process, const std::string& label) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(label)) {
      return line.substr(label.size());
    }
  }
  return "";
}

// True if the process has a SIGKILL to come, and still waits in the kernel.
bool IsBeyondSigkill(pid_t process) {
  const std::uint64_t signals =
      std::strtoull(LineOf(process, "ShdPnd:\t").c_str(), nullptr, 16) |
      std::strtoull(LineOf(process, "SigPnd:\t").c_str(), nullptr, 16);
  return (signals & (std::uint64_t{1} << (SIGKILL - 1))) != 0 &&
         LineOf(process, "State:\t").starts_with("D");
}

std::size_t ExecutorsBeyondSigkill() {
  const std::vector<UniqueFd> executors = Node::Processes("mountd-exec");
  return static_cast<std::size_t>(std::count_if(
      executors.begin(), executors.end(),
      [](const auto& one) { return IsBeyondSigkill(Node::PidOf(one)); }));
}

// True if a naive daemon, which kills a child that takes too long and waits for
// the child's end, waits for ever.
bool NaiveWaitsForItsChild(const FuseServer& server) {
  const pid_t child = StatInChild(std::string(kServed) + "/dir");
  // Before the server has read the request, the signal ends the child.
  const bool is_read = server.AwaitSwallowed();
  ::kill(child, SIGKILL);
  return is_read && Eventually([child] { return IsBeyondSigkill(child); }) &&
         ::waitpid(child, nullptr, WNOHANG) == 0;
}

class Swallowed : public NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    fs::create_directories("/run/host/good");
    fs::create_directories(kServed);
    server_ = std::make_unique<FuseServer>(kServed);
    ASSERT_TRUE(server_->valid()) << errno;
    // The kernel knows the directory by now, so each lookup asks the server by
    // itself and waits for no other lookup.
    known_.reset(::open((std::string(kServed) + "/dir").c_str(),
                        O_PATH | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(known_.valid()) << errno;
    ASSERT_NO_FATAL_FAILURE(StartNode(Config()));
    for (std::size_t i = 0; i < kMostOfAUser; ++i) {
      ASSERT_EQ(MessageOf(client_->PrepareAllocation(AllocationOf(i))), "Ok");
    }
    ASSERT_NO_FATAL_FAILURE(ConnectOther());
    ASSERT_EQ(MessageOf(other_->PrepareAllocation("theirs")), "Ok");
  }
  // The executors end only after the server.
  void TearDown() override {
    server_.reset();
    other_.reset();
    NodeFixture::TearDown();
  }

  void ConnectOther() {
    auto other = node_->ConnectAs(kOther);
    ASSERT_EQ(MessageOf(other), "Ok");
    other_.emplace(*std::move(other));
  }
  static agent::BindMountSpec SpecOf(const std::string& volume) {
    agent::BindMountSpec spec;
    spec.task = "app";
    spec.name = volume;
    spec.source_type = agent::SourceType::kHostVolume;
    spec.source = volume;
    return spec;
  }
  static std::string BindAndUnmount(agent::Client& client,
                                    const std::string& allocation) {
    const auto bound = client.BindMount(allocation, SpecOf("good"));
    return bound ? MessageOf(client.Unmount(allocation, "app", "good"))
                 : MessageOf(bound);
  }
  std::size_t Stuck() {
    const auto capabilities = other_->GetCapabilities();
    EXPECT_EQ(MessageOf(capabilities), "Ok");
    return capabilities ? capabilities->stuck_executors : 0;
  }
  static std::string AllocationOf(std::size_t volume) {
    return "web" + std::to_string(volume);
  }
  // Binds the volume, in an allocation of its own, again and again until mountd
  // refuses that because an executor is stuck with it. An earlier call may get
  // no turn in time.
  void BindUntilStuck(std::size_t volume) {
    auto client = node_->Connect();
    ASSERT_EQ(MessageOf(client), "Ok");
    const std::string allocation = AllocationOf(volume);
    const agent::BindMountSpec spec = SpecOf("v" + std::to_string(volume));
    std::string last;
    EXPECT_TRUE(Eventually([&] {
      const auto bound = client->BindMount(allocation, spec);
      last = MessageOf(bound);
      return Outcome(bound) == "Unavailable";
    })) << last;
  }

  void ExpectAllToBeReleased() {
    for (std::size_t i = 0; i < kMostOfAUser; ++i) {
      EXPECT_EQ(MessageOf(client_->ReleaseAllocation(AllocationOf(i))), "Ok");
    }
    EXPECT_EQ(MessageOf(other_->ReleaseAllocation("theirs")), "Ok");
    EXPECT_EQ(MountPointsUnder("/run/mountd/base").size(), 1U);
    EXPECT_EQ(MountPointsUnder(kServed).size(), 1U);
  }

  std::unique_ptr<FuseServer> server_;
  UniqueFd known_;
  std::optional<agent::Client> other_;
};

TEST_F(Swallowed, ExecutorsThatNoSignalEndsAreCountedForTheirUserAlone) {
  server_->Swallow();
  EXPECT_NAIVE(NaiveWaitsForItsChild(*server_));
  std::vector<std::thread> calls;
  for (std::size_t i = 0; i < kMostOfAUser; ++i) {
    calls.emplace_back([this, i] { BindUntilStuck(i); });
  }
  while (Stuck() < kMostOfAUser && !HasFailure()) {
    EXPECT_EQ(BindAndUnmount(*other_, "theirs"), "Ok");
  }
  for (std::thread& call : calls) {
    call.join();
  }
  // The executors get a SIGKILL, and do not end.
  EXPECT_TRUE(Eventually([] {
    return ExecutorsBeyondSigkill() == kMostOfAUser;
  })) << ExecutorsBeyondSigkill();
  EXPECT_EQ(Stuck(), kMostOfAUser);
  const std::string refused = BindAndUnmount(*client_, "web0");
  EXPECT_NE(refused.find("16 executors hang in the kernel for this user"),
            std::string::npos)
      << refused;
  EXPECT_EQ(BindAndUnmount(*other_, "theirs"), "Ok");
  server_->Die();
  EXPECT_TRUE(Eventually([&] { return Stuck() == 0; }));
  EXPECT_EQ(ExecutorsBeyondSigkill(), 0U);
  EXPECT_EQ(BindAndUnmount(*client_, "web0"), "Ok");
  ExpectAllToBeReleased();
}

// mountd knows nothing of the executors of the mountd before it, and is not
// held up by them.
TEST_F(Swallowed, AnotherMountdStartsBesideSuchAnExecutor) {
  server_->Swallow();
  EXPECT_NAIVE(NaiveWaitsForItsChild(*server_));
  BindUntilStuck(0);
  EXPECT_TRUE(Eventually([] { return ExecutorsBeyondSigkill() == 1; }));
  Node::Kill(Node::Processes("mountd"));
  Connect();
  ASSERT_NO_FATAL_FAILURE(ConnectOther());
  EXPECT_EQ(BindAndUnmount(*other_, "theirs"), "Ok");
  EXPECT_EQ(ExecutorsBeyondSigkill(), 1U);
  server_->Die();
  EXPECT_TRUE(Eventually([] { return ExecutorsBeyondSigkill() == 0; }));
  ExpectAllToBeReleased();
}

}  // namespace
}  // namespace mountd::testing
