// SPDX-License-Identifier: LGPL-2.1-or-later
// The client joins work under way and connects again by itself.
#include <gtest/gtest.h>

#include <string>

#include "agent/client.h"
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
  for (int i = 0; i < 2; ++i) {
    const auto result = client.PrepareAllocation("web");
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::kUnavailable);
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
  }
  EXPECT_EQ(server.script().count("PrepareAllocation"), 1U);
}

TEST(Connect, ToNothingIsUnavailableAndSaysWhere) {
  const auto client = Client::Connect({.address = "unix:path=/nowhere/bus"});
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, Code::kUnavailable);
  EXPECT_EQ(client.error().object, "/nowhere/bus");
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
}

TEST(Connect, AClientThatWasMovedGoesOn) {
  FakeServer server;
  Client first = Connect(server);
  Client second = std::move(first);
  EXPECT_TRUE(second.PrepareAllocation("web"));
}

}  // namespace
}  // namespace mountd::agent::test
