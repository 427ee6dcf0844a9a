// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/fakes/cni_world.h"
#include "tests/support/node/node_fixture.h"

namespace mountd::testing {

// Owns a whole mountd with CNI networks and plugins, and an agent.
class NodeCniFixture : public NodeFixture, protected cni::CniWorld {
 protected:
  using Json = cni::Json;

  void SetUp() override {
    NodeFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    ::umask(S_IWGRP | S_IWOTH);
    Make();
    ASSERT_NO_FATAL_FAILURE(StartNode(Config()));
    ASSERT_EQ(MessageOf(client_->GetCapabilities()), "Ok");
  }

  virtual std::string Config() const {
    return R"(
[cni]
config_dirs = ["/run/networks"]
plugin_dirs = ["/run/plugins"]
[network.default]
ipv4 = "10.88.0.0/24"
[[rule]]
users = ["agent"]
networks = ["*", "cni/net", "cni/slow"]
host_ports = ["20000-20999"]
[timeouts]
cni_ms = 10000
)";
  }

  static agent::NetworkSpec Cni(const std::string& network = "net",
                                const std::string& interface = "") {
    agent::NetworkSpec spec;
    spec.mode = "cni/" + network;
    spec.interface = interface;
    return spec;
  }
  Result<agent::NetworkStatus> SetUpNetwork(const std::string& allocation,
                                            const agent::NetworkSpec& spec) {
    EXPECT_EQ(MessageOf(client_->PrepareAllocation(allocation)), "Ok");
    return client_->SetupNetwork(allocation, spec);
  }
  void Release(const std::string& allocation) {
    ASSERT_EQ(MessageOf(client_->ReleaseAllocation(allocation)), "Ok");
  }
  std::vector<agent::NetworkStatus> NetworksOf(const std::string& allocation) {
    const auto status = client_->GetAllocation(allocation);
    return status ? status->networks : std::vector<agent::NetworkStatus>{};
  }
  void Kill(const std::string& process) {
    Node::Kill(Node::Processes(process));
    Connect();
  }
  // Returns the paths that are left of the allocation; "" if there are none.
  static std::string LeftOf(const std::string& allocation) {
    std::string left;
    for (const std::string& path :
         {"/run/netns/" + allocation, "/run/mountd/base/d/" + allocation,
          "/run/mountd/base/n/" + allocation,
          "/run/mountd/cni/records/" + allocation + "@eth0"}) {
      left += std::filesystem::exists(path) ? path + " " : "";
    }
    return left;
  }
};

}  // namespace mountd::testing
