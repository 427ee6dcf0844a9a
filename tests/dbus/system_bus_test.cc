// SPDX-License-Identifier: LGPL-2.1-or-later
// The system bus has a name, a daemon that may go, and LogControl1, which the
// socket has not.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <utility>

#include "mountd/base/unique_fd.h"
#include "tests/dbus/api_test.h"

namespace mountd::test {
namespace {

constexpr char kLogPath[] = "/org/freedesktop/LogControl1";
constexpr char kLogInterface[] = "org.freedesktop.LogControl1";
constexpr char kProperties[] = "org.freedesktop.DBus.Properties";

class SystemBus : public ApiTest {
 protected:
  bool ServedOnTheSocket() {
    const auto client = ConnectPeer();
    return client != nullptr && client->Call("ListOwed", "a{sv}", 0).ok();
  }
};

TEST_F(SystemBus, TheNameIsOwned) {
  StartWithBus();
  const auto client = ConnectBus();
  ASSERT_NE(client, nullptr);
  sd_bus_creds* owner = nullptr;
  ASSERT_GE(sd_bus_get_name_creds(client->raw(), "org.mountd1",
                                  SD_BUS_CREDS_PID, &owner),
            0);
  pid_t pid = 0;
  EXPECT_GE(sd_bus_creds_get_pid(owner, &pid), 0);
  sd_bus_creds_unref(owner);
  EXPECT_EQ(pid, ::getpid());
}

TEST_F(SystemBus, ABusThatGoesIsFoundAgain) {
  StartWithBus();
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    const auto client = ConnectBus();
    bus().Stop();
    EXPECT_TRUE(client->AwaitDisconnect());
    EXPECT_TRUE(ServedOnTheSocket());
    bus().Start();
    EXPECT_TRUE(Eventually([this] { return ServedOnTheBus(); }));
  }
}

TEST_F(SystemBus, ABusThatComesLaterIsFound) {
  StartBus();
  bus().Stop();
  Start(/*with_bus=*/true);
  EXPECT_TRUE(ServedOnTheSocket());
  bus().Start();
  EXPECT_TRUE(Eventually([this] { return ServedOnTheBus(); }));
}

// The bus accepts connections and never answers.
TEST_F(SystemBus, ABusThatHangsHoldsUpNobody) {
  StartBus();
  bus().Stop();
  bus().StartMute();
  Start(/*with_bus=*/true);
  ASSERT_TRUE(bus().AwaitConnection());
  EXPECT_TRUE(ServedOnTheSocket());
}

TEST_F(SystemBus, ACallUnderWayOutlivesTheBus) {
  StartWithBus();
  const auto client = ConnectBus();
  const auto peer = ConnectPeer();
  ASSERT_NE(client, nullptr);
  ASSERT_NE(peer, nullptr);
  ASSERT_TRUE(client->Call("Subscribe", "a{sv}", 0).ok());
  executor().script().Block("PrepareAllocation");
  client->Send("PrepareAllocation", "sa{sv}", "web", 0);
  client->Fence();
  ASSERT_TRUE(executor().script().AwaitBlocked("PrepareAllocation"));
  bus().Stop();
  EXPECT_TRUE(ServedOnTheSocket());
  executor().script().UnblockAll();
  EXPECT_TRUE(Eventually([this] { return server().running() == 0; }));
  EXPECT_TRUE(peer->Call("GetAllocation", "sa{sv}", "web", 0).ok());
  // The subscriber is gone with the bus, so no signal is sent, and nothing
  // breaks.
  ASSERT_TRUE(
      peer->Call("RegisterPlugin", "sssa{sv}", "csi", "node", "", 0).ok());
  bus().Start();
  EXPECT_TRUE(Eventually([this] { return ServedOnTheBus(); }));
}

// mountd has not noticed the bus's end when it writes the signal.
TEST_F(SystemBus, AFenceThatTheBusDoesNotTakeIsToldTheNext) {
  StartBus();
  ApiServerOptions options;
  options.config = DefaultConfig();
  options.system_bus = true;
  options.on_fence = [this](const std::function<void()>& tell) {
    bus().Stop();
    tell();
  };
  Start(std::move(options));
  ASSERT_TRUE(Eventually([this] { return ServedOnTheBus(); }));
  const auto subscriber = ConnectBus();
  const auto peer = ConnectPeer();
  ASSERT_NE(subscriber, nullptr);
  ASSERT_NE(peer, nullptr);
  ASSERT_TRUE(subscriber->Call("Subscribe", "a{sv}", 0).ok());
  ASSERT_TRUE(peer->Call("PrepareAllocation", "sa{sv}", "web", 0).ok());
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  ASSERT_TRUE(peer->Call("AcquireLease", "sa{sv}", "agent", 2, "allocation",
                         "s", "web", "pipe", "h", reading.get())
                  .ok());
  writing.reset();
  ASSERT_TRUE(subscriber->AwaitDisconnect());
  // The loop's thread may not have ended bus().Stop() yet.
  server().OnLoop([] {});
  bus().Start();
  ASSERT_TRUE(Eventually([this] { return ServedOnTheBus(); }));
  const auto next = ConnectBus();
  ASSERT_NE(next, nullptr);
  ASSERT_TRUE(next->Call("Subscribe", "a{sv}", 0).ok());
  EXPECT_NE(next->AwaitSignal("FenceDone").text.find("web"), std::string::npos);
}

// The callers outnumber those that mountd remembers.
TEST_F(SystemBus, ASubscriberIsNotForgottenForOthers) {
  StartWithBus();
  const auto subscriber = ConnectBus();
  ASSERT_NE(subscriber, nullptr);
  ASSERT_TRUE(subscriber->Call("Subscribe", "a{sv}", 0).ok());
  for (int i = 0; i < 1100; ++i) {
    ASSERT_TRUE(ServedOnTheBus()) << i;
  }
  const auto peer = ConnectPeer();
  ASSERT_TRUE(
      peer->Call("RegisterPlugin", "sssa{sv}", "csi", "node", "", 0).ok());
  EXPECT_EQ(subscriber->AwaitSignal("PluginChanged").text,
            R"("csi", "healthy", "")");
}

TEST_F(SystemBus, TheLogLevelIsReadAndSetByRoot) {
  StartWithBus();
  const auto client = ConnectBus();
  ASSERT_NE(client, nullptr);
  const auto level = [&] {
    return client
        ->CallOn(kLogPath, kProperties, "Get", "ss", kLogInterface, "LogLevel")
        .text;
  };
  const auto set = [](BusClient& who, const char* value) {
    return who
        .CallOn(kLogPath, kProperties, "Set", "ssv", kLogInterface, "LogLevel",
                "s", value)
        .error;
  };
  EXPECT_EQ(
      client->CallOn(kLogPath, kProperties, "GetAll", "s", kLogInterface).types,
      (std::map<std::string, std::string>{
          {"LogLevel", "s"}, {"LogTarget", "s"}, {"SyslogIdentifier", "s"}}));
  EXPECT_EQ(level(), R"("info")");
  EXPECT_EQ(set(*client, "loud"),
            IsRoot() ? "org.freedesktop.DBus.Error.InvalidArgs"
                     : "org.freedesktop.DBus.Error.AccessDenied");
  if (!IsRoot()) {
    return;
  }
  EXPECT_EQ(set(*client, "err"), "");
  EXPECT_EQ(level(), R"("err")");
  const auto alice = ConnectBus(kAlice);
  ASSERT_NE(alice, nullptr);
  EXPECT_EQ(set(*alice, "debug"), "org.freedesktop.DBus.Error.AccessDenied");
  EXPECT_EQ(level(), R"("err")");
  EXPECT_EQ(set(*client, "info"), "");
}

}  // namespace
}  // namespace mountd::test
