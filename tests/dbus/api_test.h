// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "tests/support/api_server.h"
#include "tests/support/bus_client.h"
#include "tests/support/private_bus.h"
#include "tests/support/temp_directory.h"

namespace mountd::test {

// The API as clients meet it: all of mountd in this process, its peer-to-peer
// socket, and with `with_bus` a dbus-daemon of the test's own.
class ApiTest : public testing::Test {
 protected:
  // Users that every Debian has: dbus-daemon serves nobody it cannot look up.
  static constexpr uid_t kAlice = 1;         // daemon; may do everything
  static constexpr uid_t kBob = 2;           // bin; so may this one
  static constexpr uid_t kStranger = 65534;  // nobody; no rule names it
  static constexpr uid_t kSelf = static_cast<uid_t>(-1);

  // Who this test runs as, and the users above but the last, may do everything
  // with the host volume "data", the network "default" and all plugins.
  static Config DefaultConfig();

  // The bus alone, where it is to be there, or gone, before the server starts.
  void StartBus();
  void Start(ApiServerOptions options);
  void Start(bool with_bus = false);
  // And waits until it is there.
  void StartWithBus();

  void Stop();

  std::unique_ptr<BusClient> ConnectPeer(uid_t uid = kSelf);
  std::unique_ptr<BusClient> ConnectBus(uid_t uid = kSelf);

  ApiServer& server() { return *server_; }
  PrivateBus& bus() { return *bus_; }
  exec::FakeExecutor& executor() { return server_->executor(); }
  csi::FakeCsiClient& csi() { return server_->csi(); }

  // A fresh client is answered on the bus.
  bool ServedOnTheBus();

  // False if it never comes true.
  static bool Eventually(const std::function<bool()>& condition);

 private:
  TempDirectory directory_;
  std::unique_ptr<PrivateBus> bus_;
  std::unique_ptr<ApiServer> server_;
};

enum class Transport { kPeer, kBus };

// The same on both transports.
class BothTransports : public ApiTest,
                       public testing::WithParamInterface<Transport> {
 protected:
  void SetUp() override;
  std::unique_ptr<BusClient> Connect(uid_t uid = kSelf);

  // What a call that changes nothing leaves the same: records, and the plans
  // that were made.
  std::string State();
  // The allocation "web" with the volume "vol" of the plugin "csi" as "data".
  void Publish(BusClient& client);
  void RegisterPlugin(BusClient& client, const char* type = "node");
};

// For INSTANTIATE_TEST_SUITE_P.
std::string NameOfTransport(const testing::TestParamInfo<Transport>& info);

// Other users' callers are real: only root can be them.
inline bool IsRoot() { return ::geteuid() == 0; }

}  // namespace mountd::test

#define MOUNTD_ON_BOTH_TRANSPORTS(suite)                                   \
  INSTANTIATE_TEST_SUITE_P(, suite,                                        \
                           testing::Values(mountd::test::Transport::kPeer, \
                                           mountd::test::Transport::kBus), \
                           mountd::test::NameOfTransport)
