// SPDX-License-Identifier: LGPL-2.1-or-later
// The client works over a dbus-daemon, as `mountctl --bus` uses it.
#include <gtest/gtest.h>

#include "agent/client.h"
#include "agent/subscriber.h"
#include "tests/agent/fake_manager.h"
#include "tests/agent/signal_log.h"
#include "tests/support/servers/private_bus.h"
#include "tests/support/temp_directory.h"

namespace mountd::agent::test {
namespace {

class BusTest : public testing::Test {
 protected:
  TempDirectory directory_;
  mountd::test::PrivateBus bus_{directory_.File("")};
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
  EXPECT_EQ(log.Wait(16).size(), 16U);
}

TEST_F(BusTest, WithoutTheServiceIsUnavailable) {
  Client client = Client::Connect({.system_bus = true}).value();
  const auto result = client.PrepareAllocation("web");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kUnavailable);
  EXPECT_EQ(result.error().away, Away::kDaemon);
}

TEST_F(BusTest, WithoutABusIsUnavailable) {
  bus_.Stop();
  const auto client = Client::Connect({.system_bus = true});
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, Code::kUnavailable);
  EXPECT_EQ(client.error().away, Away::kDaemon);
}

}  // namespace
}  // namespace mountd::agent::test
