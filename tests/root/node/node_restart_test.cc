// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A seed decides at which moments all processes of mountd are killed, while
// agents work. Each call ends with a true answer or can be made again. A
// connection through a mapped port and a writer of a file go on, and nothing is
// left at the end.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/net_probe.h"
#include "tests/support/node/host_volumes.h"
#include "tests/support/node/node_fixture.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kAgents = 3;
constexpr int kCalls = 40;  // of each agent at least, and more until kKills
constexpr int kKills = 24;
constexpr std::uint16_t kPort = 20080;

constexpr char kRestartConfig[] = R"(
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
)";

void BecomeAgent() {
  ::syscall(SYS_setgroups, 0, nullptr);
  ::syscall(SYS_setresgid, kAgentUid, kAgentUid, kAgentUid);
  ::syscall(SYS_setresuid, kAgentUid, kAgentUid, kAgentUid);
}

// Sends numbers through a mapped port, and expects each to come back.
class Transfer {
 public:
  Transfer(const std::string& netns, const std::string& host)
      : listening_(SocketIn(netns, AF_INET, SOCK_STREAM, 0)),
        client_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in inside = AddressOf("0.0.0.0", 80);
    sockaddr_in outside = AddressOf(host, kPort);
    valid_ = ::bind(listening_.get(), reinterpret_cast<sockaddr*>(&inside),
                    sizeof(inside)) == 0 &&
             ::listen(listening_.get(), 1) == 0 &&
             ::connect(client_.get(), reinterpret_cast<sockaddr*>(&outside),
                       sizeof(outside)) == 0;
    if (!valid_) {
      return;
    }
    server_.reset(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const timeval longest = {30, 0};
    for (const UniqueFd* fd : {&client_, &server_}) {
      ::setsockopt(fd->get(), SOL_SOCKET, SO_RCVTIMEO, &longest,
                   sizeof(longest));
    }
    thread_ = std::thread([this] { Run(); });
  }
  ~Transfer() { Stop(); }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  bool valid() const { return valid_; }
  std::uint64_t done() const { return done_; }
  bool failed() const { return failed_; }
  void Stop() {
    stop_ = true;
    if (thread_.joinable()) {
      thread_.join();
    }
  }

 private:
  static sockaddr_in AddressOf(const std::string& text, std::uint16_t port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    ::inet_pton(AF_INET, text.c_str(), &address.sin_addr);
    return address;
  }
  static bool Pass(int from, int to, std::uint64_t number) {
    std::uint64_t got = 0;
    return ::send(from, &number, sizeof(number), MSG_NOSIGNAL) ==
               sizeof(number) &&
           ::recv(to, &got, sizeof(got), MSG_WAITALL) == sizeof(got) &&
           got == number;
  }
  void Run() {
    while (!stop_ && !failed_) {
      failed_ = !Pass(client_.get(), server_.get(), done_) ||
                !Pass(server_.get(), client_.get(), done_);
      done_ += failed_ ? 0 : 1;
    }
  }

  UniqueFd listening_;
  UniqueFd client_;
  UniqueFd server_;
  bool valid_ = false;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> failed_ = false;
  std::atomic<std::uint64_t> done_ = 0;
  std::thread thread_;
};

// Owns a thread that writes a file and syncs it, again and again.
class Writer {
 public:
  explicit Writer(const std::string& path)
      : fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)),
        thread_([this] {
          while (!stop_ && !failed_) {
            failed_ =
                ::write(fd_.get(), "x", 1) != 1 || ::fsync(fd_.get()) != 0;
            done_ += failed_ ? 0 : 1;
          }
        }) {}
  ~Writer() { Stop(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  std::uint64_t done() const { return done_; }
  bool failed() const { return failed_; }
  void Stop() {
    stop_ = true;
    if (thread_.joinable()) {
      thread_.join();
    }
    fd_.reset();
  }

 private:
  UniqueFd fd_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> failed_ = false;
  std::atomic<std::uint64_t> done_ = 0;
  std::thread thread_;
};

// One agent makes calls on its own allocation in random order.
class Agent {
 public:
  Agent(int number, unsigned seed)
      : id_("w" + std::to_string(number)), random_(seed) {}

  // Runs as the user "agent", on a thread of its own.
  void Run(const std::atomic<int>& kills) {
    BecomeAgent();
    auto client = agent::Client::Connect({});
    ASSERT_EQ(MessageOf(client), "Ok");
    for (int i = 0; i < kCalls || kills < kKills; ++i) {
      Call(*client);
    }
    ASSERT_TRUE(Eventually(
        [&] { return Outcome(client->ReleaseAllocation(id_)) != "Busy"; }));
    ASSERT_TRUE(Eventually([&] {
      const std::string told = Outcome(client->ReleaseAllocation(id_));
      return told == "Ok" || told == "NotFound";
    }));
  }
  int ok() const { return ok_; }

 private:
  std::string Target(const std::string& name) const {
    return "/run/mountd/base/a/" + id_ + "/app/" + name;
  }
  // True if the call succeeded. Otherwise the outcome must be true, or allow
  // the same call again.
  bool Told(const std::string& call, const std::string& outcome) {
    static const std::set<std::string> kTrue = {
        "Ok",      "Unavailable", "DeadlineExceeded",   "Busy",
        "Aborted", "NotFound",    "FailedPrecondition", "AlreadyExists"};
    EXPECT_TRUE(kTrue.contains(outcome)) << call << ": " << outcome;
    ok_ += outcome == "Ok" ? 1 : 0;
    return outcome == "Ok";
  }
  void Call(agent::Client& client) {
    const std::string name = "m" + std::to_string(random_() % 3);
    switch (random_() % 8) {
      case 0:
      case 1:
        Told("PrepareAllocation", Outcome(client.PrepareAllocation(id_)));
        break;
      case 2:
      case 3:
        if (Told("BindMount",
                 Outcome(client.BindMount(
                     id_,
                     HostVolumeSpec(name, random_() % 2 == 0 ? "a" : "b"))))) {
          EXPECT_EQ(MountPointsUnder(Target(name)).size(), 1U);
        }
        break;
      case 4:
        if (Told("Unmount", Outcome(client.Unmount(id_, "app", name)))) {
          EXPECT_TRUE(MountPointsUnder(Target(name)).empty());
        }
        break;
      case 5:
        if (Told("SetupNetwork", Outcome(client.SetupNetwork(id_, {})))) {
          EXPECT_TRUE(fs::exists("/run/netns/" + id_));
        }
        break;
      case 6:
        if (Told("TeardownNetwork", Outcome(client.TeardownNetwork(id_)))) {
          EXPECT_FALSE(fs::exists("/run/netns/" + id_));
        }
        break;
      default:
        if (Told("ReleaseAllocation", Outcome(client.ReleaseAllocation(id_)))) {
          EXPECT_TRUE(MountPointsUnder(Target("")).empty());
        }
    }
  }

  const std::string id_;
  std::mt19937 random_;
  int ok_ = 0;
};

class NodeRestart : public NodeFixture {
 protected:
  void SetUp() override {
    PrivateNamespaces::SetUp();
    if (IsSkipped()) {
      return;
    }
    for (const char* name : {"a", "b"}) {
      fs::create_directories(std::string("/run/host/") + name);
    }
    ASSERT_NO_FATAL_FAILURE(StartNode(kRestartConfig));
    const char* given = std::getenv("MOUNTD_TEST_SEED");
    seed_ = given != nullptr ? static_cast<unsigned>(std::atoi(given))
                             : std::random_device{}();
    std::cout << "MOUNTD_TEST_SEED=" << seed_ << std::endl;
  }
  unsigned seed_ = 0;
};

TEST_F(NodeRestart, AgentsAndTasksGoOnWhileAnyProcessIsKilled) {
  ASSERT_EQ(Outcome(client_->PrepareAllocation("keep")), "Ok");
  ASSERT_EQ(MessageOf(client_->BindMount("keep", HostVolumeSpec("d", "a"))),
            "Ok");
  agent::NetworkSpec spec;
  spec.ports = {{"http", kPort, 80, "tcp"}};
  const auto network = client_->SetupNetwork("keep", spec);
  ASSERT_EQ(MessageOf(network), "Ok");
  Transfer transfer(network->netns_path, "127.0.0.1");
  ASSERT_TRUE(transfer.valid()) << errno;
  Writer writer("/run/mountd/base/a/keep/app/d/file");

  std::atomic<int> kills = 0;
  std::atomic<int> running = kAgents;
  std::vector<Agent> agents;
  for (int i = 0; i < kAgents; ++i) {
    agents.emplace_back(i, seed_ + static_cast<unsigned>(i));
  }
  std::vector<std::thread> threads;
  for (Agent& one : agents) {
    threads.emplace_back([&] {
      one.Run(kills);
      --running;
    });
  }
  std::mt19937 random(seed_);
  while (running > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10 + random() % 150));
    constexpr const char* kNames[] = {"mountd", "mountd-exec", "mountd-csi"};
    const auto victims = Node::Processes(kNames[random() % 3]);
    Node::Kill(victims);
    kills += static_cast<int>(victims.size());
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const Agent& one : agents) {
    EXPECT_GT(one.ok(), 0);
  }
  transfer.Stop();
  writer.Stop();
  EXPECT_FALSE(transfer.failed()) << "after " << transfer.done();
  EXPECT_GT(transfer.done(), 100U);
  EXPECT_FALSE(writer.failed()) << "after " << writer.done();
  EXPECT_EQ(fs::file_size("/run/host/a/file"), writer.done());

  Connect();
  const auto keep = client_->GetAllocation("keep");
  ASSERT_EQ(MessageOf(keep), "Ok");
  ASSERT_EQ(keep->mounts.size(), 1U);
  EXPECT_EQ(keep->mounts[0].state, "attached");
  ASSERT_EQ(keep->networks.size(), 1U);
  EXPECT_EQ(keep->networks[0].netns_inode, network->netns_inode);
  EXPECT_EQ(MessageOf(client_->ReleaseAllocation("keep")), "Ok");
  EXPECT_TRUE(Eventually([&] {
    const auto owed = client_->ListOwed();
    const auto capabilities = client_->GetCapabilities();
    if (!owed || !capabilities) {
      return false;
    }
    const auto usage = capabilities->addresses.at("default");
    return owed->empty() && usage.free == usage.capacity &&
           MountPointsUnder("/run/mountd/base").size() == 1 &&
           MountPointsUnder("/run/host").empty() &&
           fs::is_empty("/run/mountd/base/a") &&
           fs::is_empty("/run/mountd/base/n");
  }));
}

}  // namespace
}  // namespace mountd::testing
