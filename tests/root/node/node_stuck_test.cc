// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Executors are stopped (SIGSTOP) during a plan, at moments spread over it. The
// call ends by its deadline, and other calls are served. Whatever the stopped
// executor does later, the node has at the end what mountd has recorded.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/node/host_volumes.h"
#include "tests/support/node/node_fixture.h"
#include "tests/support/node/stopped.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kTrials = 4;  // of each call: one for each end
constexpr char kInbox[] = "/run/mountd/base/a/web/app";

constexpr char kStuckConfig[] = R"(
[host_volume.a]
path = "/run/host/a"
[host_volume.b]
path = "/run/host/b"
[network.default]
ipv4 = "10.88.0.0/24"
[[rule]]
users = ["agent"]
host_volumes = ["*"]
networks = ["*"]
host_ports = ["20000-20999"]
[timeouts]
plan_ms = 500
)";

agent::NetworkSpec NetworkWithPort() {
  agent::NetworkSpec spec;
  spec.ports = {{"http", 20080, 80, "tcp"}};
  return spec;
}

// Returns the volume that the mount "d" shows; "" if there is none.
std::string Shown() { return VolumeShownAt(std::string(kInbox) + "/d"); }

// Stops the executors that carry out a plan.
std::vector<UniqueFd> StopBusy() {
  std::vector<UniqueFd> stopped;
  for (UniqueFd& process : Node::Processes("mountd-exec")) {
    const std::string pid = PidOf(process);
    Send(process, SIGSTOP);
    EXPECT_TRUE(Eventually([&] {
      const char state = StateOf(pid);
      return state == 'T' || state == 'X' || state == 'Z';
    }));
    if (IsIdle(pid)) {
      Send(process, SIGCONT);
    } else {
      stopped.push_back(std::move(process));
    }
  }
  return stopped;
}

class NodeStuck : public NodeFixture {
 protected:
  void SetUp() override {
    PrivateNamespaces::SetUp();
    if (IsSkipped()) {
      return;
    }
    MakeHostVolumes();
    ASSERT_NO_FATAL_FAILURE(StartNode(kStuckConfig));
    ASSERT_EQ(Outcome(client_->PrepareAllocation("other")), "Ok");
    const char* given = std::getenv("MOUNTD_TEST_SEED");
    const unsigned seed = given != nullptr
                              ? static_cast<unsigned>(std::atoi(given))
                              : std::random_device{}();
    std::cout << "MOUNTD_TEST_SEED=" << seed << std::endl;
    random_.seed(seed);
  }

  using Call = std::function<Result<void>(agent::Client&)>;
  using Check = std::function<bool()>;

  struct Case {
    Call before;  // makes the object that the call changes
    Call call;
    Check done;  // checks that the call has had its effect
  };

  // Repeats a call until it succeeds, as agents do. False if it never does.
  bool Succeeds(const Call& call) {
    std::string told;
    const bool done = Eventually([&] {
      told = Outcome(call(*client_));
      EXPECT_TRUE(told == "Ok" || told == "Unavailable" || told == "Busy" ||
                  told == "DeadlineExceeded" || told == "FailedPrecondition")
          << told;
      return told == "Ok";
    });
    EXPECT_TRUE(done) << told;
    return done;
  }
  static Result<void> Prepare(agent::Client& client) {
    MOUNTD_TRY(client.PrepareAllocation("web"));
    return Ok();
  }
  static Result<void> Release(agent::Client& client) {
    MOUNTD_TRY(client.ReleaseAllocation("web"));
    return Ok();
  }

  bool OthersAreServed() {
    const auto bound = client_->BindMount("other", HostVolumeSpec("d", "b"));
    return Outcome(bound) == "Ok" &&
           Outcome(client_->Unmount("other", "app", "d")) == "Ok";
  }
  std::uint32_t Stuck() {
    const auto capabilities = client_->GetCapabilities();
    EXPECT_TRUE(capabilities) << capabilities.error().Message();
    return capabilities ? capabilities->stuck_executors : 0;
  }
  void ExpectNothingIsLeft() {
    EXPECT_TRUE(Eventually([&] {
      const auto owed = client_->ListOwed();
      return owed && owed->empty() &&
             MountPointsUnder("/run/mountd/base").size() == 1 &&
             MountPointsUnder("/run/host").empty() &&
             MountPointsUnder("/run/netns").size() <= 1 &&
             !fs::exists("/run/netns/web") &&
             !fs::is_symlink("/run/mountd/base/n/web");
    }));
    const auto capabilities = client_->GetCapabilities();
    ASSERT_TRUE(capabilities);
    EXPECT_TRUE(Eventually([&] {
      const auto usage = client_->GetCapabilities()->addresses.at("default");
      return usage.free == usage.capacity;
    }));
  }

  // When the stopped executor goes on.
  enum class Then {
    kWakesFirst,     // before the same call is made again
    kWakesLast,      // after the same call has succeeded
    kWakesReleased,  // after the release
    // After another mountd has started that knows nothing of it.
    kMountdHasDied,
  };
  void StopDuring(const Case& one, Clock::duration takes, Then then);
  void StopAtAllMoments(const Case& one);

  std::mt19937 random_;
  int stopped_ = 0;
};

void NodeStuck::StopDuring(const Case& one, Clock::duration takes, Then then) {
  ASSERT_TRUE(Succeeds(Prepare));
  ASSERT_TRUE(Succeeds(one.before));
  auto told = std::async(std::launch::async, [&] {
    auto client = node_->Connect();
    return client ? Outcome(one.call(*client)) : Outcome(client);
  });
  std::this_thread::sleep_for(takes * static_cast<int>(random_() % 1000) /
                              1000);
  const std::vector<UniqueFd> stopped = StopBusy();
  stopped_ += stopped.empty() ? 0 : 1;
  if (!stopped.empty()) {
    EXPECT_TRUE(Eventually([&] { return OthersAreServed(); }));
  }
  const std::string outcome = told.get();
  EXPECT_TRUE(outcome == "Ok" || outcome == "DeadlineExceeded" ||
              outcome == "Unavailable" || outcome == "Busy")
      << outcome;
  if (outcome == "DeadlineExceeded") {
    // The stopped executor may have another plan, whose deadline is still to
    // come.
    EXPECT_TRUE(Eventually([&] { return Stuck() > 0 || HaveEnded(stopped); }));
  }
  const auto wake = [&] {
    for (const UniqueFd& process : stopped) {
      Send(process, SIGCONT);
    }
  };
  if (then == Then::kMountdHasDied) {
    Node::Kill(Node::Processes("mountd"));
    Connect();
  }
  if (then == Then::kWakesFirst) {
    wake();
  }
  if (then != Then::kWakesReleased) {
    ASSERT_TRUE(Succeeds(one.call));
    EXPECT_TRUE(one.done());
    wake();
    ASSERT_TRUE(Eventually([&] { return HaveEnded(stopped); }));
    EXPECT_TRUE(one.done()) << "the woken one undid what was made meanwhile";
  }
  ASSERT_TRUE(Succeeds(Release));
  wake();
  ASSERT_TRUE(Eventually([&] { return HaveEnded(stopped); }));
  EXPECT_TRUE(Eventually([&] { return Stuck() == 0; }));
  ExpectNothingIsLeft();
}

void NodeStuck::StopAtAllMoments(const Case& one) {
  ASSERT_TRUE(Succeeds(Prepare));
  ASSERT_TRUE(Succeeds(one.before));
  // `takes` is the time of a call that succeeds, because on a busy machine a
  // call may reach its deadline first.
  Clock::duration takes{};
  ASSERT_TRUE(Succeeds([&](agent::Client& client) -> Result<void> {
    const auto started = Clock::now();
    Result<void> result = one.call(client);
    takes = Clock::now() - started;
    return result;
  }));
  ASSERT_TRUE(one.done());
  ASSERT_TRUE(Succeeds(Release));
  // A short call may end before it can be stopped, so it is tried again.
  constexpr int kMostTrials = 500;
  for (int i = 0;
       (i < kTrials || stopped_ == 0) && i < kMostTrials && !HasFailure();
       ++i) {
    SCOPED_TRACE(i);
    StopDuring(one, takes, static_cast<Then>(i % 4));
  }
  EXPECT_GT(stopped_, 0) << "no trial stopped anything";
}

Result<void> Nothing(agent::Client& /*client*/) { return Ok(); }

Result<void> Bind(agent::Client& client) {
  MOUNTD_TRY(client.BindMount("web", HostVolumeSpec("d", "a")));
  return Ok();
}

Result<void> SetUpNetwork(agent::Client& client) {
  MOUNTD_TRY(client.SetupNetwork("web", NetworkWithPort()));
  return Ok();
}

TEST_F(NodeStuck, InTheMiddleOfBindMount) {
  StopAtAllMoments({Nothing, Bind, [] {
                      return Shown() == "a" &&
                             MountPointsUnder(kInbox).size() == 1;
                    }});
}

TEST_F(NodeStuck, InTheMiddleOfUnmount) {
  StopAtAllMoments({Bind,
                    [](agent::Client& client) -> Result<void> {
                      return client.Unmount("web", "app", "d");
                    },
                    [] { return MountPointsUnder(kInbox).empty(); }});
}

TEST_F(NodeStuck, InTheMiddleOfReplaceMount) {
  const auto capabilities = client_->GetCapabilities();
  if (!capabilities || !capabilities->features.at("mount-beneath")) {
    GTEST_SKIP() << "this kernel cannot mount beneath (Linux 6.5)";
  }
  StopAtAllMoments(
      {Bind,
       [](agent::Client& client) -> Result<void> {
         MOUNTD_TRY(client.ReplaceMount("web", HostVolumeSpec("d", "b")));
         return Ok();
       },
       [] { return Shown() == "b" && MountPointsUnder(kInbox).size() == 1; }});
}

TEST_F(NodeStuck, InTheMiddleOfSetupNetwork) {
  StopAtAllMoments({Nothing, SetUpNetwork, [&] {
                      const auto status = client_->GetAllocation("web");
                      return status && status->networks.size() == 1 &&
                             !MountPointsUnder("/run/netns/web").empty() &&
                             fs::is_symlink("/run/mountd/base/n/web");
                    }});
}

TEST_F(NodeStuck, InTheMiddleOfTeardownNetwork) {
  StopAtAllMoments({SetUpNetwork,
                    [](agent::Client& client) -> Result<void> {
                      return client.TeardownNetwork("web");
                    },
                    [] { return MountPointsUnder("/run/netns/web").empty(); }});
}

TEST_F(NodeStuck, InTheMiddleOfReleaseAllocation) {
  StopAtAllMoments({[](agent::Client& client) -> Result<void> {
                      MOUNTD_TRY(Bind(client));
                      return SetUpNetwork(client);
                    },
                    Release,
                    [] { return !fs::exists("/run/mountd/base/a/web"); }});
}

}  // namespace
}  // namespace mountd::testing
