// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Serves a whole mountd on models for the clients of the conformance script:
//
//   conformance_server FOLDER
//
// Prints the address, and then reads commands, one a line. Answers each by
// "ok": "hold METHOD MS" makes that method of the executor wait for so long,
// and "restart" ends this mountd and starts the next one on its stores.
// "secrets" is "ok" if the last RPC of a plugin had secrets.
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>

#include "mountd/config/config.h"
#include "tests/support/servers/api_server.h"

namespace mountd::test {
namespace {

Config ConfigOfServer() {
  constexpr std::string_view kText = R"(
[host_volume.data]
path = "/srv/data"
propagation = ["private", "host-to-task"]
[network.default]
ipv4 = "10.0.0.0/24"
[timeouts]
rpc_ms = 5000
probe_starting_ms = 5
probe_ready_ms = 20
)";
  Config config = ParseConfig(kText, "conformance").value();
  RuleConfig all;
  all.uids = {::geteuid()};
  all.host_volumes = all.plugins = all.register_plugins = all.networks = {"*"};
  all.control_plugins = {"*"};
  all.detached = true;
  all.host_ports = {{20000, 21000}};
  config.rules = {all};
  return config;
}

// The answers of the plugin's controller, in protobuf's JSON.
csi::RpcResult<std::string> AnswerOf(const csi::ControllerCall& call) {
  static const std::map<std::string, std::string> kAnswers = {
      {"ControllerPublishVolume", R"({"publish_context": {"lun": "7"}})"},
      {"ValidateVolumeCapabilities", R"({"message": "too old"})"},
      {"CreateVolume",
       R"({"volume": {"volume_id": "made", "capacity_bytes": "7",
                      "volume_context": {"tier": "1"}}})"},
      {"ControllerExpandVolume",
       R"({"capacity_bytes": "9", "node_expansion_required": true})"},
      {"ListVolumes",
       R"({"entries": [{"volume": {"volume_id": "a", "capacity_bytes": "7"}}],
           "next_token": "more"})"},
      {"GetCapacity",
       R"({"available_capacity": "5", "maximum_volume_size": "4"})"},
      {"CreateSnapshot", "ab"}};  // a call of bytes
  const auto found = kAnswers.find(call.rpc);
  return found == kAnswers.end() ? std::string("{}") : found->second;
}

std::unique_ptr<ApiServer> StartServer(const std::string& folder) {
  ApiServerOptions options;
  options.config = ConfigOfServer();
  auto server = std::make_unique<ApiServer>(folder, std::move(options));
  for (const char* id : {"csi", "disk"}) {
    csi::FakeCsiClient::Plugin plugin = csi::FakeCsiClient::DefaultPlugin(id);
    plugin.capabilities.node_rpcs.push_back(
        static_cast<int>(csi::NodeRpc::kExpandVolume));
    plugin.capabilities.controller_rpcs = {1, 2, 3, 4, 5, 9};
    server->csi().SetPlugin(id, std::move(plugin));
  }
  server->csi().SetController(AnswerOf);
  return server;
}

int Serve(const std::string& folder) {
  std::unique_ptr<ApiServer> server = StartServer(folder);
  std::cout << server->address() << std::endl;
  std::thread holding;
  for (std::string line; std::getline(std::cin, line);) {
    if (holding.joinable()) {
      holding.join();
    }
    std::istringstream words(line);
    std::string command;
    std::string method;
    int ms = 0;
    words >> command >> method >> ms;
    if (command == "hold") {
      server->executor().script().Block(method);
      holding = std::thread([&server, method, ms] {
        std::this_thread::sleep_for(std::chrono::milliseconds(ms));
        server->executor().script().Unblock(method);
      });
    } else if (command == "restart") {
      server.reset();
      server = StartServer(folder);
    } else if (command == "secrets") {
      if (!server->csi().last_had_secrets()) {
        std::cout << "the plugin got no secrets" << std::endl;
        continue;
      }
    } else {
      std::cerr << "unknown command: " << line << "\n";
      return 1;
    }
    std::cout << "ok" << std::endl;
  }
  if (holding.joinable()) {
    holding.join();
  }
  return 0;
}

}  // namespace
}  // namespace mountd::test

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: conformance_server FOLDER\n";
    return 2;
  }
  return mountd::test::Serve(argv[1]);
}
