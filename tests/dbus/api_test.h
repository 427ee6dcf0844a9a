// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "tests/support/bus_client.h"
#include "tests/support/servers/api_server.h"
#include "tests/support/servers/private_bus.h"
#include "tests/support/temp_directory.h"

namespace mountd::test {

// Runs the API as clients meet it: all of mountd in this process, its
// peer-to-peer socket, and with `with_bus` a dbus-daemon of the test's own.
class ApiTest : public ::testing::Test {
 protected:
  // The users exist in every Debian, because dbus-daemon serves no user that it
  // cannot look up.
  static constexpr uid_t kAlice = 1;         // daemon; may do everything
  static constexpr uid_t kBob = 2;           // bin; may do everything, too
  static constexpr uid_t kStranger = 65534;  // nobody; no rule names this user
  static constexpr uid_t kSelf = static_cast<uid_t>(-1);

  // Permits everything with the host volume "data", the network "default" and
  // all plugins to this test's user and to the users above but the last.
  static Config DefaultConfig();

  // Starts the bus alone, so that it can be there, or gone, before the server
  // starts.
  void StartBus();
  void Start(ApiServerOptions options);
  void Start(bool with_bus = false);
  // Starts the server on the bus, and waits until it answers there.
  void StartWithBus();

  void Stop();

  std::unique_ptr<BusClient> ConnectPeer(uid_t uid = kSelf);
  std::unique_ptr<BusClient> ConnectBus(uid_t uid = kSelf);

  ApiServer& server() { return *server_; }
  PrivateBus& bus() { return *bus_; }
  exec::FakeExecutor& executor() { return server_->executor(); }
  csi::FakeCsiClient& csi() { return server_->csi(); }

  // True if a new client is served on the bus.
  bool ServedOnTheBus();

  // False if the condition never holds.
  static bool Eventually(const std::function<bool()>& condition);

 private:
  TempDirectory directory_;
  std::unique_ptr<PrivateBus> bus_;
  std::unique_ptr<ApiServer> server_;
};

enum class Transport { kPeer, kBus };

// Runs each test on both transports.
class BothTransports : public ApiTest,
                       public ::testing::WithParamInterface<Transport> {
 protected:
  void SetUp() override;
  std::unique_ptr<BusClient> Connect(uid_t uid = kSelf);

  // Returns what a call without effect leaves unchanged: the records, and the
  // number of plans.
  std::string State();
  // Makes the allocation "web" with the volume "vol" of the plugin "csi" as
  // "data".
  void Publish(BusClient& client);
  void RegisterPlugin(BusClient& client, const char* type = "node");
};

// Returns a name for INSTANTIATE_TEST_SUITE_P.
std::string NameOfTransport(const ::testing::TestParamInfo<Transport>& info);

// True if this test can connect as other users, which only root can.
inline bool IsRoot() { return ::geteuid() == 0; }

}  // namespace mountd::test

#define MOUNTD_ON_BOTH_TRANSPORTS(suite)                                     \
  INSTANTIATE_TEST_SUITE_P(, suite,                                          \
                           ::testing::Values(mountd::test::Transport::kPeer, \
                                             mountd::test::Transport::kBus), \
                           mountd::test::NameOfTransport)
