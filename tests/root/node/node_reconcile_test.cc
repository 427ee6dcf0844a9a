// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Reconcile by an unprivileged agent, with real processes, and after another
// boot, of which only the records are left.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "tests/support/eventually.h"
#include "tests/support/node/node_fixture.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

constexpr char kCgroups[] = "/sys/fs/cgroup";

// Owns a process that has run `body`, and lives until End.
class Process {
 public:
  explicit Process(const std::function<bool()>& body) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const UniqueFd ready(ends[0]);
    UniqueFd done(ends[1]);
    pid_ = ::fork();
    if (pid_ == 0) {
      const char outcome = body() ? 'y' : 'n';
      (void)!::write(done.get(), &outcome, 1);
      for (;;) {
        ::pause();
      }
    }
    done.reset();
    char outcome = 0;
    EXPECT_EQ(::read(ready.get(), &outcome, 1), 1);
    EXPECT_EQ(outcome, 'y') << "the process could not do it";
  }
  ~Process() { End(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  void End() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
      pid_ = -1;
    }
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

class NodeReconcile : public NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    fs::create_directories("/run/host/data");
    while (::umount2(kCgroups, MNT_DETACH) == 0) {
    }
    ASSERT_EQ(::mount("cgroup2", kCgroups, "cgroup2", 0, nullptr), 0);
    top_ = "/mountd-test-" + std::to_string(::getpid());
    ASSERT_EQ(::mkdir((kCgroups + top_).c_str(), 0755), 0);
    ASSERT_NO_FATAL_FAILURE(StartNode(R"(
[network.default]
ipv4 = "10.88.0.0/24"
[host_volume.data]
path = "/run/host/data"
[[rule]]
users = ["agent"]
networks = ["*"]
host_volumes = ["*"]
cgroups = [")" + top_ + R"("]
)"));
  }
  void TearDown() override {
    for (const std::string& name : {top_ + "/web/task", top_ + "/web", top_}) {
      // A process that has just ended may stay in the cgroup for a moment.
      if (!top_.empty() && fs::exists(kCgroups + name)) {
        EXPECT_TRUE(Eventually([&] {
          return ::rmdir((kCgroups + name).c_str()) == 0;
        })) << name;
      }
    }
    NodeFixture::TearDown();
  }

  std::string MakeCgroup(const std::string& name) {
    const std::string path = kCgroups + top_ + "/" + name;
    EXPECT_EQ(::mkdir(path.c_str(), 0755), 0) << path;
    return path;
  }
  static std::function<bool()> Join(const std::string& cgroup) {
    return [procs = cgroup + "/cgroup.procs"] {
      const UniqueFd fd(::open(procs.c_str(), O_WRONLY | O_CLOEXEC));
      return ::write(fd.get(), "0", 1) == 1;
    };
  }
  static std::function<bool()> Enter(const std::string& directory) {
    return [directory] { return ::chdir(directory.c_str()) == 0; };
  }

  void Prepare(const std::string& allocation, const std::string& cgroup = "") {
    const UniqueFd fd(
        cgroup.empty()
            ? -1
            : ::open(cgroup.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    agent::AllocationOptions options;
    options.scope = "s";
    options.cgroup = fd.get();
    ASSERT_EQ(MessageOf(client_->PrepareAllocation(allocation, options)), "Ok");
  }
  static agent::BindMountSpec Data() {
    agent::BindMountSpec spec;
    spec.task = "task";
    spec.name = "data";
    spec.source_type = agent::SourceType::kHostVolume;
    spec.source = "data";
    return spec;
  }
  // Mounts the volume. Returns its path.
  std::string Mount(const std::string& allocation) {
    EXPECT_EQ(MessageOf(client_->BindMount(allocation, Data())), "Ok");
    return "/run/mountd/base/a/" + allocation + "/task/data";
  }
  std::string SetUpNetwork(const std::string& allocation) {
    const auto network = client_->SetupNetwork(allocation, {});
    EXPECT_EQ(MessageOf(network), "Ok");
    return network ? network->netns_path : "";
  }
  Result<std::vector<agent::ReconciledAllocation>> Run(
      std::uint64_t epoch, const Lines& wanted = {}) {
    return client_->Reconcile({.scope = "s", .epoch = epoch, .wanted = wanted});
  }
  Lines Told(std::uint64_t epoch, const Lines& wanted = {}) {
    const auto all = Run(epoch, wanted);
    if (!all) {
      return {Outcome(all)};
    }
    Lines told;
    for (const agent::ReconciledAllocation& one : *all) {
      told.push_back(one.allocation + " " + one.outcome);
    }
    return told;
  }

  std::string top_;
};

TEST_F(NodeReconcile, AProcessInTheCgroupKeepsItsAllocation) {
  const std::string cgroup = MakeCgroup("web");
  Prepare("web", cgroup);
  Prepare("gone");
  Mount("web");
  Mount("gone");
  Process task(Join(MakeCgroup("web/task")));
  const auto all = Run(3);
  ASSERT_EQ(MessageOf(all), "Ok");
  ASSERT_EQ(all->size(), 2U);
  EXPECT_EQ(all->at(0).outcome, "released") << all->at(0).reason;
  EXPECT_EQ(all->at(1).outcome, "live");
  ASSERT_EQ(all->at(1).holders->holders.size(), 1U) << all->at(1).reason;
  EXPECT_EQ(all->at(1).holders->holders[0].pid,
            static_cast<std::uint32_t>(task.pid()));
  EXPECT_EQ(MountPointsUnder("/run/mountd/base/a").size(), 1U);
  EXPECT_EQ(Told(2), Lines{"FailedPrecondition"});
  // The process and its cgroup end, and the same call then releases the
  // allocation.
  task.End();
  EXPECT_TRUE(Eventually(
      [&] { return Told(3) == Lines{"web released"} || Told(3).empty(); }));
  EXPECT_EQ(MountPointsUnder("/run/mountd/base/a"), Lines{});
  EXPECT_EQ(MessageOf(client_->GetReceipt("web")), "Ok");
}

TEST_F(NodeReconcile, AProcessInTheNetworkKeepsItsAllocation) {
  Prepare("web");
  const std::string netns = SetUpNetwork("web");
  Process task([&] {
    const UniqueFd fd(::open(netns.c_str(), O_RDONLY | O_CLOEXEC));
    return ::setns(fd.get(), CLONE_NEWNET) == 0;
  });
  const auto all = Run(1);
  ASSERT_EQ(MessageOf(all), "Ok");
  EXPECT_EQ(all->at(0).outcome, "live");
  EXPECT_NE(all->at(0).reason.find("in its network namespace"),
            std::string::npos)
      << all->at(0).reason;
  EXPECT_TRUE(fs::exists(netns));
  task.End();
  const auto after = Run(1);
  ASSERT_EQ(MessageOf(after), "Ok");
  EXPECT_EQ(after->at(0).outcome, "released") << after->at(0).reason;
  EXPECT_FALSE(fs::exists(netns));
}

TEST_F(NodeReconcile, AHolderOfAMountKeepsItsAllocation) {
  Prepare("web");
  Process task(Enter(Mount("web")));
  const auto all = Run(1);
  ASSERT_EQ(MessageOf(all), "Ok");
  EXPECT_EQ(all->at(0).outcome, "live");
  EXPECT_NE(all->at(0).reason.find("task/data"), std::string::npos)
      << all->at(0).reason;
  EXPECT_EQ(MountPointsUnder("/run/mountd/base/a").size(), 1U);
}

// An agent that has lost its state wants nothing.
TEST_F(NodeReconcile, MountdsRestartChangesNothingOfIt) {
  const std::string cgroup = MakeCgroup("web");
  Prepare("web", cgroup);
  Mount("web");
  Process task(Join(cgroup));
  ASSERT_EQ(Told(5, {"web"}), Lines{"web present"});
  Node::Kill(Node::Processes("mountd"));
  Connect();
  EXPECT_EQ(Told(4), Lines{"FailedPrecondition"});
  EXPECT_EQ(Told(6), Lines{"web live"});
  task.End();
  EXPECT_TRUE(Eventually([&] { return Told(6) != Lines{"web live"}; }));
  EXPECT_EQ(Told(6), Lines{});
}

TEST_F(NodeReconcile, AnotherBootLeavesTheRecordsAndNothingElse) {
  const std::string cgroup = MakeCgroup("web");
  Prepare("web", cgroup);
  Mount("web");
  SetUpNetwork("web");
  Prepare("old");
  Mount("old");
  SetUpNetwork("old");
  ASSERT_EQ(Told(5, {"web", "old"}), (Lines{"old present", "web present"}));
  Process in_the_way(Enter("/run/mountd/base/a/old/task/data"));
  ASSERT_FALSE(client_->ReleaseAllocation("old").has_value());
  ASSERT_EQ(client_->ListOwed()->size(), 1U);
  in_the_way.End();
  ASSERT_NO_FATAL_FAILURE(Reboot());
  // The release goes on by itself.
  EXPECT_TRUE(Eventually([&] { return client_->ListOwed()->empty(); }));
  EXPECT_EQ(MessageOf(client_->GetReceipt("old")), "Ok");
  EXPECT_EQ(Told(4), Lines{"FailedPrecondition"});
  const auto all = Run(6, {"web", "old"});
  ASSERT_EQ(MessageOf(all), "Ok");
  ASSERT_EQ(all->size(), 2U);
  EXPECT_EQ(all->at(0).outcome, "missing");
  EXPECT_EQ(all->at(1).outcome, "present");
  EXPECT_EQ(all->at(1).needs, Lines{"bare"});
  // The agent makes the missing allocation again.
  Prepare("web", cgroup);
  Mount("web");
  EXPECT_EQ(MountPointsUnder("/run/mountd/base/a").size(), 1U);
  EXPECT_TRUE(fs::exists(SetUpNetwork("web")));
  EXPECT_EQ(Run(6, {"web"})->at(0).needs, Lines{});
  EXPECT_EQ(Told(6), Lines{"web released"});
  EXPECT_EQ(MountPointsUnder("/run/mountd/base/a"), Lines{});
  const auto usage = client_->GetCapabilities();
  ASSERT_EQ(MessageOf(usage), "Ok");
}

// In any order of the calls each answer is true, and nothing is left without a
// record.
TEST_F(NodeReconcile, BesideOtherCallsOnTheSameAllocations) {
  constexpr int kRounds = 15;
  const Lines names = {"a", "b", "c"};
  std::atomic<bool> stop = false;
  const auto alone = [&](const std::function<void(agent::Client&)>& body) {
    return std::thread([&, body] {
      auto client = node_->Connect();
      ASSERT_TRUE(client);
      while (!stop) {
        body(*client);
      }
    });
  };
  const auto expect_one_of = [](const std::string& outcome,
                                const Lines& allowed) {
    EXPECT_NE(std::find(allowed.begin(), allowed.end(), outcome), allowed.end())
        << outcome;
  };
  std::thread preparing = alone([&](agent::Client& client) {
    for (const std::string& name : names) {
      agent::AllocationOptions options;
      options.scope = "s";
      expect_one_of(Outcome(client.PrepareAllocation(name, options)),
                    {"Ok", "FailedPrecondition"});
      expect_one_of(Outcome(client.BindMount(name, Data())),
                    {"Ok", "NotFound", "FailedPrecondition"});
    }
  });
  std::thread releasing = alone([&](agent::Client& client) {
    for (const std::string& name : names) {
      expect_one_of(Outcome(client.ReleaseAllocation(name)),
                    {"Ok", "NotFound"});
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    const auto all = Run(1, {"b"});
    EXPECT_EQ(MessageOf(all), "Ok");
  }
  stop = true;
  preparing.join();
  releasing.join();
  EXPECT_EQ(Outcome(Run(1)), "Ok");
  EXPECT_EQ(Told(1), Lines{});
  EXPECT_EQ(MountPointsUnder("/run/mountd/base/a"), Lines{});
  EXPECT_TRUE(client_->ListOwed()->empty());
}

}  // namespace
}  // namespace mountd::testing
