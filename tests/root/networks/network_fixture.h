// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdlib>
#include <string>

#include "netns/address/address.h"
#include "tests/root/executor_fixture.h"

namespace mountd::testing {

// Namespaces of the tests: two allocations', that of another machine, and the
// host's own.
inline constexpr char kWebNetns[] = "/run/netns/web";
inline constexpr char kDbNetns[] = "/run/netns/db";
inline constexpr char kOutsideNetns[] = "/run/netns/outside";
inline constexpr char kHostNetns[] = "/proc/self/ns/net";

// Prepares the base, the allocation "web" and the ruleset, and no network.
class Networks : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (!IsSkipped()) {
      PrepareBase();
      ASSERT_EQ(ErrorOf(Call(exec::PlanKind::kPrepareNetworks)), "");
      before_ = Inventory::Take();
    }
  }

  static exec::NetworkPlan Plan(const std::string& allocation,
                                std::uint8_t host, std::uint16_t port) {
    exec::NetworkPlan plan;
    plan.allocation = exec::ToWire(allocation);
    plan.network = exec::ToWire("default");
    plan.interface = {"eth0"};
    plan.flags = exec::kDefaultRoute;
    plan.ipv4 = {10, 88, 0, host};
    plan.ipv6 = netns::ParseIpv6("fd88::").value();
    plan.ipv6.back() = host;
    plan.port_count = 1;
    plan.ports[0] = {port, 80, exec::kTcp | exec::kUdp, 0};
    return plan;
  }
  exec::Reply Do(exec::PlanKind kind, const exec::NetworkPlan& plan) {
    return Call(kind, [&](exec::PlanBody* body) { body->network = plan; });
  }
  exec::NetworkState StateOf(const exec::NetworkPlan& plan) {
    const exec::Reply reply = Do(exec::PlanKind::kInspectNetwork, plan);
    EXPECT_EQ(ErrorOf(reply), "");
    return reply.body.network;
  }

  // Creates the network, which must succeed. Returns its state.
  exec::NetworkState Create(const exec::NetworkPlan& plan) {
    const exec::Reply reply = Do(exec::PlanKind::kCreateNetwork, plan);
    EXPECT_EQ(ErrorOf(reply), "");
    return reply.body.network;
  }
  void Delete(const exec::NetworkPlan& plan) {
    EXPECT_EQ(ErrorOf(Do(exec::PlanKind::kDeleteNetwork, plan)), "");
  }
  static std::string LinkOf(const exec::NetworkPlan& plan) {
    return netns::LinkNameOf(plan);
  }
  // Runs the command as an operator at a terminal would.
  static void Shell(const std::string& command) {
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }

  Inventory before_;
};

}  // namespace mountd::testing
