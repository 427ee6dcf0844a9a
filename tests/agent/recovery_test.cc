// SPDX-License-Identifier: LGPL-2.1-or-later
// The client joins work under way and connects again by itself.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <atomic>
#include <csignal>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "agent/client.h"
#include "mountd/base/unix_socket.h"
#include "tests/agent/fake_manager.h"
#include "tests/support/temp_directory.h"
#include "tests/support/unix_socket.h"

namespace mountd::agent::test {
namespace {

using std::chrono::milliseconds;

const Failure kInProgress{"org.mountd1.Error.InProgress", "op-7"};
const Failure kHangUp{"", "", true};

Client Connect(const FakeServer& server, ClientOptions options = {}) {
  options.address = server.address();
  return Client::Connect(options).value();
}

TEST(Join, TheSameCallAgainUntilItIsDone) {
  FakeServer server;
  Client client = Connect(server);
  server.script().Fail("BindMount", kInProgress);
  server.script().Fail("BindMount", kInProgress);
  EXPECT_TRUE(client.BindMount("web", {.task = "t", .name = "n"}));
  EXPECT_EQ(server.script().count("BindMount"), 3U);
}

TEST(Join, ItsLaterErrorIsTheCallsError) {
  FakeServer server;
  Client client = Connect(server);
  server.script().Fail("BindMount", kInProgress);
  server.script().Fail("BindMount", {"org.mountd1.Error.Busy", "in use"});
  const auto result = client.BindMount("web", {.task = "t", .name = "n"});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kBusy);
}

TEST(Join, TurnedOffAnswersInProgressAndTheOperation) {
  FakeServer server;
  Client client = Connect(server, {.join = false});
  server.script().Fail("BindMount", kInProgress);
  const auto result = client.BindMount("web", {.task = "t", .name = "n"});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kInProgress);
  EXPECT_EQ(result.error().detail, "op-7");
  EXPECT_EQ(server.script().count("BindMount"), 1U);
}

TEST(Join, EndsWithInProgressAtTheDeadline) {
  FakeServer server;
  Client client = Connect(server, {.deadline = milliseconds(40)});
  for (int i = 0; i < 100; ++i) {
    server.script().Fail("BindMount", kInProgress);
  }
  const auto result = client.BindMount("web", {.task = "t", .name = "n"});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kInProgress);
  EXPECT_LT(server.script().count("BindMount"), 100U) << "no busy loop";
}

TEST(Join, EndsWithInProgressWhenItsCallerGivesUp) {
  FakeServer server;
  int asked = 0;
  Client client =
      Connect(server, {.give_up = [&asked] { return ++asked == 2; }});
  for (int i = 0; i < 3; ++i) {
    server.script().Fail("BindMount", kInProgress);
  }
  const auto result = client.BindMount("web", {.task = "t", .name = "n"});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kInProgress);
  EXPECT_EQ(server.script().count("BindMount"), 2U);
}

TEST(Join, ThePatienceIsNeverLongerThanTheDeadline) {
  FakeServer server;
  Client client = Connect(server, {.deadline = milliseconds(300)});
  ASSERT_TRUE(client.TeardownNetwork("web"));
  const std::string call = server.script().last_call();
  const std::string key = "patience_ms=u";
  ASSERT_NE(call.find(key), std::string::npos) << call;
  EXPECT_LE(std::stoi(call.substr(call.find(key) + key.size())), 300);
}

TEST(Reconnect, ACallThatTheDaemonsEndCutOffIsMadeOnceMore) {
  FakeServer server;
  Client client = Connect(server);
  server.script().Fail("PrepareAllocation", kHangUp);
  EXPECT_TRUE(client.PrepareAllocation("web"));
  EXPECT_EQ(server.script().count("PrepareAllocation"), 2U);
}

TEST(Reconnect, IsTriedOnceForOneCall) {
  FakeServer server;
  Client client = Connect(server);
  server.script().Fail("PrepareAllocation", kHangUp);
  server.script().Fail("PrepareAllocation", kHangUp);
  const auto result = client.PrepareAllocation("web");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kUnavailable);
  EXPECT_EQ(result.error().away, Away::kRestarting);
  EXPECT_EQ(server.script().count("PrepareAllocation"), 2U);
  EXPECT_TRUE(client.PrepareAllocation("web")) << "the next call is a new one";
}

TEST(Reconnect, SecretsAreSentAgainWithTheSecondTry) {
  FakeServer server;
  Client client = Connect(server);
  server.script().Fail("PublishVolume", kHangUp);
  VolumeSpec spec{.alias = "data", .volume = "v", .plugin = "csi"};
  spec.secrets = {{"key", "value"}};
  ASSERT_TRUE(client.PublishVolume("web", spec));
  const UniqueFd fd = server.script().TakeSecrets();
  char buffer[32];
  EXPECT_EQ(::pread(fd.get(), buffer, sizeof(buffer), 0), 10);
}

TEST(Reconnect, WhileTheDaemonIsAwayUnavailableAndThenAsBefore) {
  FakeServer server;
  Client client = Connect(server);
  ASSERT_TRUE(client.PrepareAllocation("web"));
  server.Stop();
  // The first call meets the end of the connection, the second one nobody.
  for (const Away away : {Away::kRestarting, Away::kDaemon}) {
    const auto result = client.PrepareAllocation("web");
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::kUnavailable);
    EXPECT_EQ(result.error().away, away);
  }
  server.Start();
  EXPECT_TRUE(client.PrepareAllocation("web"));
}

TEST(Reconnect, TurnedOffTheClientStaysUnavailable) {
  FakeServer server;
  Client client = Connect(server, {.reconnect = false});
  server.script().Fail("PrepareAllocation", kHangUp);
  for (int i = 0; i < 2; ++i) {
    const auto result = client.PrepareAllocation("web");
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::kUnavailable);
    EXPECT_EQ(result.error().away, Away::kRestarting);
  }
  EXPECT_EQ(server.script().count("PrepareAllocation"), 1U);
}

TEST(Connect, ToNothingIsUnavailableAndSaysWhere) {
  const auto client = Client::Connect({.address = "unix:path=/nowhere/bus"});
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, Code::kUnavailable);
  EXPECT_EQ(client.error().object, "/nowhere/bus");
  EXPECT_EQ(client.error().away, Away::kDaemon);
}

TEST(Connect, ToWhatIsNoAddressIsInvalidArgument) {
  for (const std::string address :
       {"bus", "tcp:host=localhost", "unix:path=relative",
        "unix:path=/a;unix:path=/b", "unix:abstract=x"}) {
    const auto client = Client::Connect({.address = address});
    ASSERT_FALSE(client) << address;
    EXPECT_EQ(client.error().code, Code::kInvalidArgument) << address;
  }
  EXPECT_FALSE(Client::Connect({.address = "/" + std::string(200, 'x')}));
}

// The daemon is being started or stuck: its socket is there, and nobody
// answers.
TEST(Connect, ToASilentSocketEndsAtItsTimeout) {
  const TempDirectory directory;
  const std::string path = directory.File("bus");
  const UniqueFd listener = mountd::test::ListenAt(path);
  const auto client =
      Client::Connect({.address = path, .connect_timeout = milliseconds(50)});
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, Code::kUnavailable);
  EXPECT_EQ(client.error().away, Away::kDaemon);
}

// Interrupts this thread each millisecond with a signal that has a handler, as
// an agent's tasks that end do (SIGCHLD). Threads that are to have no signal
// start before.
class Signals {
 public:
  Signals() {
    struct sigaction ignore {};
    ignore.sa_handler = [](int) {};
    ignore.sa_flags = SA_RESTART;
    ::sigaction(SIGALRM, &ignore, &before_);
    const itimerval often{{0, 1000}, {0, 1000}};
    ::setitimer(ITIMER_REAL, &often, nullptr);
  }
  ~Signals() {
    const itimerval never{};
    ::setitimer(ITIMER_REAL, &never, nullptr);
    ::sigaction(SIGALRM, &before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

 private:
  struct sigaction before_ {};
};

// Accepts connections, and answers their handshakes, only after a time, on a
// thread without signals.
class LateServer {
 public:
  explicit LateServer(int backlog)
      : listener_(mountd::test::ListenAt(directory_.File("bus"))) {
    EXPECT_EQ(::listen(listener_.get(), backlog), 0);
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &before);
    thread_ = std::thread([this] { Run(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~LateServer() {
    is_ending_ = true;
    thread_.join();
  }
  LateServer(const LateServer&) = delete;
  LateServer& operator=(const LateServer&) = delete;

  std::string address() const { return directory_.File("bus"); }

 private:
  void Run() {
    constexpr std::string_view kAnswer =
        "DATA\r\nOK 0123456789abcdef0123456789abcdef\r\nAGREE_UNIX_FD\r\n";
    std::this_thread::sleep_for(milliseconds(100));
    std::vector<UniqueFd> peers;
    while (!is_ending_) {
      UniqueFd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!peer.valid()) {  // nobody is there
        std::this_thread::sleep_for(milliseconds(1));
        continue;
      }
      EXPECT_EQ(
          ::send(peer.get(), kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL),
          static_cast<ssize_t>(kAnswer.size()));
      peers.push_back(std::move(peer));
    }
  }

  const TempDirectory directory_;
  const UniqueFd listener_;
  std::atomic<bool> is_ending_ = false;
  std::thread thread_;
};

// Connects until the backlog is full.
std::vector<UniqueFd> Fill(const std::string& path) {
  std::vector<UniqueFd> all;
  int err = 0;
  do {
    all.emplace_back(
        ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    err = ConnectUnix(all.back().get(), path);
  } while (err == 0);
  EXPECT_EQ(err, EAGAIN);
  return all;
}

TEST(Connect, SignalsDoNotEndTheWaitForTheHandshake) {
  const LateServer server(SOMAXCONN);
  const Signals signals;
  const auto client = Client::Connect({.address = server.address()});
  EXPECT_TRUE(client) << client.error().Message();
}

TEST(Connect, SignalsDoNotEndTheWaitForTheBacklog) {
  const LateServer server(0);
  const std::vector<UniqueFd> others = Fill(server.address());
  const Signals signals;
  const auto client = Client::Connect({.address = server.address()});
  EXPECT_TRUE(client) << client.error().Message();
}

TEST(Connect, SignalsDoNotKeepItFromItsTimeout) {
  const TempDirectory directory;
  const std::string path = directory.File("bus");
  const UniqueFd listener = mountd::test::ListenAt(path);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  const Signals signals;
  for (const bool is_full : {false, true}) {
    const auto others = is_full ? Fill(path) : std::vector<UniqueFd>();
    const auto client =
        Client::Connect({.address = path, .connect_timeout = milliseconds(50)});
    ASSERT_FALSE(client);
    EXPECT_EQ(client.error().code, Code::kUnavailable);
  }
}

TEST(Connect, AClientThatWasMovedGoesOn) {
  FakeServer server;
  Client first = Connect(server);
  Client second = std::move(first);
  EXPECT_TRUE(second.PrepareAllocation("web"));
}

}  // namespace
}  // namespace mountd::agent::test
