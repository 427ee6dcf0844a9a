// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The documents that runtimes wrote to a plugin's stdin at ADD, with
// The configuration of agent/mountd-cni/README.md, as recorded in
// golden/CLIENT-VERSION.json.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "agent/mountd-cni/config.h"

namespace mountd::cni_plugin {
namespace {

using cni::Json;
using Texts = std::vector<std::string>;

std::string Recorded(const std::string& name) {
  std::ifstream file(std::string(MOUNTD_GOLDEN) + "/" + name + ".json");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

Outcome<Config> Read(const std::string& name, const std::string& args = "") {
  MOUNTD_ASSIGN(const Json document, ParseDocument(Recorded(name)));
  return ParseConfig(document,
                     {"ADD", "web", "/proc/self/ns/net", "eth0", args});
}

Texts PortsOf(const Outcome<Config>& config) {
  if (!config) {
    return {config.error().message};
  }
  Texts ports;
  for (const agent::Port& port : config->runtime.ports) {
    ports.push_back(port.host_address + ":" + std::to_string(port.host) + ":" +
                    std::to_string(port.container) + "/" + port.protocols);
  }
  return ports;
}

TEST(CniGolden, NomadsPorts) {
  EXPECT_EQ(PortsOf(Read("nomad-2.0.6")),
            (Texts{"10.99.0.1:18080:8080/tcp", "10.99.0.1:18080:8080/udp"}));
  // An exact comparison of names, which mountd-cni once made, finds no port.
  const Json document = Json::parse(Recorded("nomad-2.0.6"));
  const Json& mapping = document["runtimeConfig"]["portMappings"][0];
  EXPECT_FALSE(mapping.contains("hostPort"));
  EXPECT_FALSE(mapping.contains("containerPort"));
}

TEST(CniGolden, ContainerdsPortsAndDns) {
  const auto config = Read("go-cni-1.1.14");
  EXPECT_EQ(PortsOf(config), (Texts{":8080:80/tcp", ":8080:80/udp"}));
  ASSERT_TRUE(config);
  const Json& dns = config->runtime.dns;
  EXPECT_EQ(dns["nameservers"], Json({"9.9.9.9"}));
  EXPECT_EQ(dns["search"], Json({"svc.example"}));
  EXPECT_EQ(dns["options"], Json({"ndots:5"}));
  const Json document = Json::parse(Recorded("go-cni-1.1.14"));
  EXPECT_FALSE(document["runtimeConfig"]["dns"].contains("servers"));
}

TEST(CniGolden, PodmansPortsAndAddresses) {
  EXPECT_EQ(PortsOf(Read("podman-4.3.1", "IgnoreUnknown=1;K8S_POD_NAME=web")),
            Texts{":8081:80/tcp"});
  // `podman network reload` passes the address that the container has.
  const auto same = Read(
      "podman-4.3.1",
      "IgnoreUnknown=1;K8S_POD_NAME=web;MAC=02:4d:0a:58:00:02;IP=10.88.0.2");
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_EQ(same->runtime.address, "10.88.0.2");
  // `podman run --mac-address 02:00:00:00:00:09 --ip 10.88.7.7` asks for these
  // addresses.
  const auto other = Read(
      "podman-4.3.1-ip",
      "IgnoreUnknown=1;K8S_POD_NAME=web;MAC=02:00:00:00:00:09;IP=10.88.7.7");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, cni::kInvalidConfig);
  EXPECT_NE(other.error().message.find("02:00:00:00:00:09"), std::string::npos);
}

TEST(CniGolden, LibcnisCapabilities) {
  const auto config = Read("libcni-1.3.1");
  EXPECT_EQ(PortsOf(config), Texts{":8080:80/tcp"});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->runtime.address, "10.88.7.7");
}

}  // namespace
}  // namespace mountd::cni_plugin
