// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Serves a whole mountd on models for the clients of the conformance script:
//
//   conformance_server FOLDER
//
// Prints the address, and then reads commands, one a line. Answers each by
// "ok", or by what is wrong:
//
//   hold METHOD MS       makes that method of the executor wait for so long
//   restart              ends this mountd, and starts the next on its stores
//   begin METHOD         calls PrepareAllocation or RemoveTree, which go on
//   end                  lets the call of "begin" end
//   tell SIGNAL          sends a signal whose cause the models do not have
//   secrets              is "ok" if the last RPC of a plugin had secrets
//   watch                begins to probe mounts and volumes
//   tree COUNT           gives the next trees so many entries
//   lose TARGET          unmounts behind mountd's back
//   health SOURCE WORD   makes the source's file system "hung" or "healthy"
//   fail RPC, mend       makes each such RPC fail, until "mend"
//   node PLUGIN ID       gives the plugin's node another id
#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "dbus/methods/event.h"
#include "mountd/config/config.h"
#include "tests/support/bus_client.h"
#include "tests/support/servers/api_server.h"

namespace mountd::test {
namespace {

constexpr std::uint64_t kCgroup = 7;

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
probe_mounts_ms = 20
probe_volumes_ms = 20
owed_warning_ms = 20
)";
  Config config = ParseConfig(kText, "conformance").value();
  RuleConfig all;
  all.uids = {::geteuid()};
  all.host_volumes = all.plugins = all.register_plugins = all.networks = {"*"};
  all.control_plugins = {"*"};
  all.detached = true;
  all.alloc_roots = {"/srv/alloc"};
  all.cgroups = {"/mountd-test"};
  all.ids = {{100000, 165535}};
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

csi::FakeCsiClient::Plugin PluginOf(const std::string& id) {
  csi::FakeCsiClient::Plugin plugin = csi::FakeCsiClient::DefaultPlugin(id);
  for (const csi::NodeRpc rpc :
       {csi::NodeRpc::kGetVolumeStats, csi::NodeRpc::kExpandVolume,
        csi::NodeRpc::kVolumeCondition}) {
    plugin.capabilities.node_rpcs.push_back(static_cast<int>(rpc));
  }
  plugin.capabilities.controller_rpcs = {1, 2, 3, 4, 5, 9};
  plugin.stats.usage = {{60, 100, 40, false}};
  plugin.stats.condition = csi::VolumeCondition{true, "its disk is slow"};
  return plugin;
}

std::unique_ptr<ApiServer> StartServer(const std::string& folder) {
  ApiServerOptions options;
  options.config = ConfigOfServer();
  options.reload = [](LiveConfig&) {
    return std::vector<std::string>{"limits"};
  };
  auto server = std::make_unique<ApiServer>(folder, std::move(options));
  for (const char* id : {"csi", "disk"}) {
    server->csi().SetPlugin(id, PluginOf(id));
  }
  server->csi().SetController(AnswerOf);
  server->executor().PutCgroup(kCgroup, "/mountd-test");
  server->executor().SetTask(kCgroup);
  return server;
}

// Owns the server, and a client of its own for calls that go on while the
// runner does other things. Carries out the commands.
class Conformance {
 public:
  explicit Conformance(std::string folder)
      : folder_(std::move(folder)), server_(StartServer(folder_)) {}
  ~Conformance() { EndHold(); }
  Conformance(const Conformance&) = delete;
  Conformance& operator=(const Conformance&) = delete;

  std::string address() const { return server_->address(); }
  // Returns "ok", or what is wrong.
  std::string Do(const std::string& line);

 private:
  using Words = std::istringstream;

  std::string Restart();
  std::string Hold(Words& words);
  void EndHold();
  std::string Begin(Words& words);
  std::string End();
  std::string Tell(const std::string& signal);
  // Does what others do to the machine or to a plugin.
  bool DoToMachine(const std::string& command, Words& words);

  const std::string folder_;
  std::unique_ptr<ApiServer> server_;
  std::thread holding_;
  std::unique_ptr<BusClient> client_;
};

std::string Conformance::Restart() {
  client_.reset();
  server_.reset();
  server_ = StartServer(folder_);
  return "ok";
}

std::string Conformance::Hold(Words& words) {
  std::string method;
  int ms = 0;
  words >> method >> ms;
  server_->executor().script().Block(method);
  holding_ = std::thread([this, method, ms] {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    server_->executor().script().Unblock(method);
  });
  return "ok";
}

void Conformance::EndHold() {
  if (holding_.joinable()) {
    holding_.join();
  }
}

std::string Conformance::Begin(Words& words) {
  std::string method;
  words >> method;
  client_ = BusClient::Connect({server_->address()});
  if (client_ == nullptr) {
    return "the server has no connection to itself";
  }
  Answer answer;
  if (method == "RemoveTree") {
    const UniqueFd directory(::open("/", O_PATH | O_CLOEXEC));
    server_->executor().SetTree(UINT64_MAX);
    answer = client_->Call("RemoveTree", "ha{sv}", directory.get(), 1,
                           "patience_ms", "u", 1);
  } else {
    server_->executor().script().Block("PrepareAllocation");
    answer = client_->Call("PrepareAllocation", "sa{sv}", "held", 1,
                           "patience_ms", "u", 1);
  }
  return answer.error == "org.mountd1.Error.InProgress" ? "ok" : answer.message;
}

// Lets the operation of Begin end.
std::string Conformance::End() {
  server_->executor().script().UnblockAll();
  server_->executor().SetTree(0);
  return "ok";
}

// Sends a signal as mountd does, whose cause the models do not have.
std::string Conformance::Tell(const std::string& signal) {
  const std::uint32_t uid = ::geteuid();
  const CallerAccess& access = server_->access();
  NetworkRecord network;
  network.allocation = "web";
  network.interface = "eth0";
  VolumeRecord volume;
  volume.plugin = "csi";
  volume.volume_id = "volume-1";
  volume.uid = uid;
  PublicationRecord publication;
  publication.allocation = "web";
  publication.alias = "vol";
  const std::map<std::string, dbus::Event> events = {
      {"AddressesScarce", dbus::AddressesScarce(access, "default", {254, 20})},
      {"NetworkRepaired", dbus::NetworkRepaired(access, uid, network, "link")},
      {"NetworkLost", dbus::NetworkLost(access, uid, network, "it is gone")},
      {"RulesetRestored", dbus::RulesetRestored()},
      {"StuckChanged", dbus::StuckChanged(1)},
      {"SecretsNeeded", dbus::SecretsNeeded(access, volume, publication)}};
  const auto found = events.find(signal);
  if (found == events.end()) {
    return "the server cannot tell " + signal;
  }
  server_->OnLoop([&] { server_->Send(found->second); });
  return "ok";
}

bool Conformance::DoToMachine(const std::string& command, Words& words) {
  std::string first;
  std::string second;
  words >> first >> second;
  if (command == "watch") {
    server_->WatchMounts();
    server_->WatchConditions();
  } else if (command == "tree") {
    server_->executor().SetTree(std::stoull(first));
  } else if (command == "lose") {
    server_->executor().LoseMount(first);
  } else if (command == "health") {
    server_->executor().SetHealth(first, second == "hung"
                                             ? exec::MountHealth::kHung
                                             : exec::MountHealth::kHealthy);
  } else if (command == "fail") {
    server_->csi().FailNext(first, csi::RpcCode::kInternal, FailWhen::kBefore,
                            CallScript<csi::RpcError>::kAlways);
  } else if (command == "mend") {
    server_->csi().script().Clear();
  } else if (command == "node") {
    csi::FakeCsiClient::Plugin plugin = PluginOf(first);
    plugin.node.node_id = second;
    server_->csi().SetPlugin(first, std::move(plugin));
  } else {
    return false;
  }
  return true;
}

std::string Conformance::Do(const std::string& line) {
  EndHold();
  Words words(line);
  std::string command;
  words >> command;
  if (command == "hold") {
    return Hold(words);
  }
  if (command == "restart") {
    return Restart();
  }
  if (command == "begin") {
    return Begin(words);
  }
  if (command == "end") {
    return End();
  }
  if (command == "tell") {
    std::string signal;
    words >> signal;
    return Tell(signal);
  }
  if (command == "secrets") {
    return server_->csi().last_had_secrets() ? "ok"
                                             : "the plugin got no secrets";
  }
  return DoToMachine(command, words) ? "ok" : "unknown command: " + line;
}

int Serve(const std::string& folder) {
  spdlog::set_level(spdlog::level::off);  // it would log between the answers
  Conformance conformance(folder);
  std::cout << conformance.address() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << conformance.Do(line) << std::endl;
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
