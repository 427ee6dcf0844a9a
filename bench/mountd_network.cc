// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/mountd_network.h"

#include <utility>

namespace mountd::bench {
namespace {

class MountdNetwork final : public NetworkWay {
 public:
  MountdNetwork(agent::Client& client, std::string allocation, LinkWatch& links)
      : client_(client), allocation_(std::move(allocation)), links_(links) {}
  std::string name() const override { return "mountd"; }

  Result<void> Prepare(const std::vector<std::uint16_t>& ports) override {
    spec_ = SpecWith(ports);
    links_.Forget();
    return Ok();
  }
  Result<void> CleanUp() override { return Ok(); }

  Result<void> SetUp() override {
    MOUNTD_ASSIGN(const agent::NetworkStatus made,
                  client_.SetupNetwork(allocation_, spec_));
    link_ = made.host_interface;
    return Ok();
  }
  Result<void> Use() override {
    MOUNTD_TRY(client_.GetAllocation(allocation_));
    return Ok();
  }
  Result<void> TearDown() override {
    return client_.TeardownNetwork(allocation_);
  }
  Result<void> AwaitGone() override { return links_.AwaitGone({link_}); }

 private:
  agent::Client& client_;
  const std::string allocation_;
  LinkWatch& links_;
  agent::NetworkSpec spec_;
  std::string link_;
};

}  // namespace

agent::NetworkSpec SpecWith(const std::vector<std::uint16_t>& ports) {
  agent::NetworkSpec spec;
  for (const std::uint16_t port : ports) {
    spec.ports.push_back({.label = "port" + std::to_string(port),
                          .host = port,
                          .container = ContainerPort(port),
                          .protocols = "tcp+udp"});
  }
  return spec;
}

std::unique_ptr<NetworkWay> NetworkThroughMountd(agent::Client& client,
                                                 const std::string& allocation,
                                                 LinkWatch& links) {
  return std::make_unique<MountdNetwork>(client, allocation, links);
}

}  // namespace mountd::bench
