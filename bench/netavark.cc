// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/netavark.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/namespaces.h"
#include "bench/programs.h"

namespace mountd::bench {
namespace {

using Json = nlohmann::json;

constexpr char kNetavark[] = "/usr/lib/podman/netavark";
constexpr char kState[] = "/run/bench/netavark";

// The network that Podman makes without options, except for a name server.
constexpr char kNetwork[] = R"({
  "name": "bench",
  "id": "1111111111111111111111111111111111111111111111111111111111111111",
  "driver": "bridge",
  "network_interface": "nav0",
  "subnets": [{"subnet": "10.90.0.0/16", "gateway": "10.90.0.1"}],
  "ipv6_enabled": false,
  "internal": false,
  "dns_enabled": false,
  "ipam_options": {"driver": "host-local"},
  "options": {}
})";

Json PortMappings(const std::vector<std::uint16_t>& ports) {
  Json mappings = Json::array();
  for (const std::uint16_t port : ports) {
    for (const char* protocol : {"tcp", "udp"}) {
      mappings.push_back({{"host_ip", ""},
                          {"container_port", ContainerPort(port)},
                          {"host_port", port},
                          {"range", 1},
                          {"protocol", protocol}});
    }
  }
  return mappings;
}

// One container on the host, with the same name as its namespace.
class Container {
 public:
  Container(const Namespace& host, const std::string& name,
            const std::string& address)
      : host_(host), namespace_(name), name_(name), address_(address) {}

  Result<void> Make(const std::vector<std::uint16_t>& ports) {
    Json options;
    options["container_id"] = std::string(64, name_.back());
    options["container_name"] = name_;
    options["port_mappings"] = PortMappings(ports);
    Json& network = options["networks"]["bench"];
    network["static_ips"] = Json::array({address_});
    network["interface_name"] = "eth0";
    options["network_info"]["bench"] = Json::parse(kNetwork);
    options_ = options.dump();
    return namespace_.Make();
  }
  Result<void> Remove() { return namespace_.Remove(); }

  Result<void> Run(const std::string& command) {
    MOUNTD_ASSIGN(const Inside inside, Inside::Enter(host_));
    MOUNTD_TRY(RunProgram(
        {.command = {kNetavark, "--config", kState, command, namespace_.path()},
         .input = options_}));
    return Ok();
  }

 private:
  const Namespace& host_;
  NomadNamespace namespace_;
  const std::string name_;
  const std::string address_;
  std::string options_;
};

class Netavark final : public NetworkWay {
 public:
  explicit Netavark(Namespace host) : host_(std::move(host)) {}
  std::string name() const override { return NetavarkVersion(); }

  // Keeps another container, because the first one makes the bridge and the
  // last one removes it.
  Result<void> HaveAnother() {
    MOUNTD_TRY(other_.Make({}));
    return other_.Run("setup");
  }
  Result<void> Prepare(const std::vector<std::uint16_t>& ports) override {
    return container_.Make(ports);
  }
  Result<void> CleanUp() override { return container_.Remove(); }
  Result<void> SetUp() override { return container_.Run("setup"); }
  Result<void> TearDown() override { return container_.Run("teardown"); }

 private:
  const Namespace host_;
  Container container_{host_, "netavark-a", "10.90.0.3"};
  Container other_{host_, "netavark-b", "10.90.0.2"};
};

}  // namespace

Result<std::unique_ptr<NetworkWay>> ByNetavark() {
  if (!IsProgram(kNetavark)) {
    return MakeError(Code::kNotFound, "find", kNetavark, "not installed");
  }
  std::filesystem::create_directories(kState);
  MOUNTD_ASSIGN(Namespace host, MakeNamespace());
  auto way = std::make_unique<Netavark>(std::move(host));
  MOUNTD_TRY(way->HaveAnother());
  return std::unique_ptr<NetworkWay>(std::move(way));
}

const std::string& NetavarkVersion() {
  static const std::string version = [] {
    const Result<std::string> told =
        RunProgram({.command = {kNetavark, "--version"}});
    return told ? told->substr(0, told->find('\n')) : "netavark";
  }();
  return version;
}

}  // namespace mountd::bench
