// SPDX-License-Identifier: LGPL-2.1-or-later
// The client over a dbus-daemon, as `mountctl --bus` uses it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "agent/client.h"
#include "agent/subscriber.h"
#include "tests/agent/fake_manager.h"
#include "tests/agent/process.h"
#include "tests/agent/signal_log.h"

namespace mountd::agent::test {
namespace {

constexpr char kConfig[] = R"(<busconfig>
  <type>system</type><auth>EXTERNAL</auth>
  <listen>unix:path=@/bus</listen>
  <policy context="default">
    <allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/>
  </policy>
</busconfig>)";

// A dbus-daemon of this test's own, which is the system bus for this process.
class BusTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = "/tmp/mountd-agent-XXXXXX";
    ASSERT_NE(::mkdtemp(dir_.data()), nullptr);
    std::string config = kConfig;
    config.replace(config.find('@'), 1, dir_);
    std::ofstream(dir_ + "/conf") << config;
    daemon_ = std::make_unique<RunningProgram>(std::vector<std::string>{
        "/usr/bin/dbus-daemon", "--config-file=" + dir_ + "/conf", "--nofork",
        "--print-address=1"});
    const std::string address = daemon_->ReadLine();
    ASSERT_NE(address, "");
    ::setenv("DBUS_SYSTEM_BUS_ADDRESS", address.c_str(), 1);
  }
  void TearDown() override {
    daemon_.reset();
    ::unsetenv("DBUS_SYSTEM_BUS_ADDRESS");
    for (const char* name : {"/conf", "/bus", ""}) {
      std::remove((dir_ + name).c_str());
    }
  }

  std::string dir_;
  std::unique_ptr<RunningProgram> daemon_;
};

TEST_F(BusTest, CallsAnswersAndErrorsAreTheSameAsOnTheSocket) {
  FakeBusService service;
  Client client = Client::Connect({.system_bus = true}).value();
  EXPECT_EQ(client.Version().value(), "0.1.0");
  EXPECT_EQ(client.PrepareAllocation("web").value(), "/run/mountd/base/a/web");
  service.script().Fail("Unmount", {"org.mountd1.Error.Busy", "in use"});
  const Result<void> busy = client.Unmount("web", "t", "n");
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().code, Code::kBusy);
  VolumeSpec spec{.alias = "data", .volume = "v", .plugin = "csi"};
  spec.secrets = {{"key", "value"}};
  EXPECT_TRUE(client.PublishVolume("web", spec));
  EXPECT_TRUE(service.script().TakeSecrets().valid());
}

TEST_F(BusTest, SignalsComeFromTheServiceToSubscribers) {
  FakeBusService service;
  SignalLog log;
  const auto subscriber =
      Subscriber::Start({.system_bus = true}, log.Handlers());
  ASSERT_TRUE(subscriber) << subscriber.error().Message();
  service.EmitSignals();
  EXPECT_EQ(log.Wait(6).size(), 6U);
}

TEST_F(BusTest, WithoutTheServiceIsUnavailable) {
  Client client = Client::Connect({.system_bus = true}).value();
  const auto result = client.PrepareAllocation("web");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kUnavailable);
}

TEST_F(BusTest, WithoutABusIsUnavailable) {
  daemon_.reset();
  const auto client = Client::Connect({.system_bus = true});
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace mountd::agent::test
