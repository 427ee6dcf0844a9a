// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/dbus/api_test.h"

#include <sys/stat.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace mountd::test {

Config ApiTest::DefaultConfig() {
  constexpr std::string_view kText = R"(
[filesystem.homes]
type = "nfs4"
source = "server:/homes"
propagation = ["private", "host-to-task"]
[host_volume.data]
path = "/srv/data"
propagation = ["private", "host-to-task", "bidirectional"]
[cni]
[network.default]
ipv4 = "10.0.0.0/24"
ipv6 = "fd00::/64"
[timeouts]
rpc_ms = 5000
probe_starting_ms = 5
probe_ready_ms = 20
probe_mounts_ms = 20
probe_volumes_ms = 20
owed_warning_ms = 20
)";
  Config config = ParseConfig(kText, "test").value();
  RuleConfig all;
  all.uids = {::geteuid(), kAlice, kBob};
  all.host_volumes = all.filesystems = all.plugins = all.register_plugins =
      all.control_plugins = {"*"};
  all.networks = {"*", "cni/*"};
  all.host_ports = {{20000, 21000}};
  all.alloc_roots = {"/srv/alloc"};
  all.ids = {{100000, 165535}};
  all.bidirectional = true;
  all.cgroups = {"/mountd-test"};
  all.detached = true;
  all.containers = true;
  all.alloc_roots = {"/tmp"};
  config.rules = {all};
  return config;
}

void ApiTest::StartBus() {
  bus_ = std::make_unique<PrivateBus>(directory_.File(""));
}

void ApiTest::StartWithBus() {
  Start(/*with_bus=*/true);
  ASSERT_TRUE(Eventually([this] { return ServedOnTheBus(); }));
}

bool ApiTest::ServedOnTheBus() {
  const auto client = ConnectBus();
  return client != nullptr && client->Call("ListOwed", "a{sv}", 0).ok();
}

void ApiTest::Stop() { server_.reset(); }

void ApiTest::Start(ApiServerOptions options) {
  // Other users connect to the socket, too.
  ASSERT_EQ(::chmod(directory_.File("").c_str(), 0755), 0);
  if (options.system_bus && bus_ == nullptr) {
    StartBus();
  }
  server_ =
      std::make_unique<ApiServer>(directory_.File(""), std::move(options));
}

void ApiTest::Start(bool with_bus) {
  ApiServerOptions options;
  options.config = DefaultConfig();
  options.system_bus = with_bus;
  Start(std::move(options));
}

std::unique_ptr<BusClient> ApiTest::ConnectPeer(uid_t uid) {
  return BusClient::Connect({server_->address(), false, uid});
}

std::unique_ptr<BusClient> ApiTest::ConnectBus(uid_t uid) {
  return BusClient::Connect({bus_->address(), true, uid});
}

bool ApiTest::Eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

void BothTransports::SetUp() {
  if (GetParam() == Transport::kBus) {
    StartWithBus();
  } else {
    Start();
  }
}

std::unique_ptr<BusClient> BothTransports::Connect(uid_t uid) {
  return GetParam() == Transport::kBus ? ConnectBus(uid) : ConnectPeer(uid);
}

std::string BothTransports::State() {
  const std::vector<exec::Request> plans = executor().plans();
  // At some time mountd probes the volumes of a plugin that becomes healthy, so
  // these plans do not count.
  const auto asked =
      std::count_if(plans.begin(), plans.end(), [](const auto& plan) {
        return plan.kind != exec::PlanKind::kProbeVolume;
      });
  return server().Records() + std::to_string(asked) + " plans";
}

void BothTransports::RegisterPlugin(BusClient& client, const char* type) {
  const Answer registered =
      client.Call("RegisterPlugin", "sssa{sv}", "csi", type, "", 0);
  ASSERT_TRUE(registered.ok()) << registered.message;
  ASSERT_TRUE(Eventually([&] {
    return client.Call("GetPlugin", "sa{sv}", "csi", 0).values["state"] ==
           "\"healthy\"";
  }));
}

void BothTransports::Publish(BusClient& client) {
  RegisterPlugin(client);
  ASSERT_TRUE(client.Call("PrepareAllocation", "sa{sv}", "web", 0).ok());
  const Answer published =
      client.Call("PublishVolume", "ssssa{sv}a{ss}a{ss}a{sv}", "web", "data",
                  "vol", "csi", 0, 0, 0, 0);
  ASSERT_TRUE(published.ok()) << published.message;
}

std::string NameOfTransport(const ::testing::TestParamInfo<Transport>& info) {
  return info.param == Transport::kBus ? "Bus" : "Peer";
}

}  // namespace mountd::test
