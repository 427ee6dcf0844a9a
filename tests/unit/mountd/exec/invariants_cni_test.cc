// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Plans that the executor refuses: of CNI, of namespaces alone, and all host
// ports together.
#include <gtest/gtest.h>

#include "mountd/exec/invariants.h"
#include "mountd/plan/wire.h"

namespace mountd::exec {
namespace {

Config ConfigWithCni() {
  Config config;
  RuleConfig rule;
  rule.networks = {"default", "cni/bridge"};
  rule.host_ports = {{1024, 65535}};
  config.rules = {RuleConfig{}, rule};
  NetworkConfig network;
  network.ipv4 = {netns::ParseIpv4Range("10.88.0.0/24").value()};
  config.networks["default"] = network;
  return config;
}

bool PassesWithCni(const Request& request) {
  return CheckRequest(request, ConfigWithCni()).has_value();
}

bool PassesCni(CniVerb verb, const char* allocation, const char* network,
               std::uint64_t inode) {
  Request request;
  request.kind = PlanKind::kRunCni;
  request.body.cni = CniPlan{};
  request.body.cni.verb = verb;
  request.body.cni.allocation = ToWire(allocation);
  request.body.cni.network = ToWire(network);
  request.body.cni.netns_inode = inode;
  return PassesWithCni(request);
}

TEST(InvariantsOfCni, AnAttachmentIsOfAGrantedNetworkAndANamespace) {
  EXPECT_TRUE(PassesCni(CniVerb::kAdd, "web", "bridge", 7));
  EXPECT_FALSE(PassesCni(CniVerb::kAdd, "web", "bridge", 0));
  EXPECT_FALSE(PassesCni(CniVerb::kAdd, "web", "macvlan", 7));
  // "default" is one of mountd's own networks, granted by the same rule.
  EXPECT_FALSE(PassesCni(CniVerb::kAdd, "web", "default", 7));
  EXPECT_FALSE(PassesCni(CniVerb::kAdd, "../web", "bridge", 7));
  EXPECT_FALSE(PassesCni(CniVerb::kAdd, "web", "../bridge", 7));
  EXPECT_FALSE(PassesCni(CniVerb::kAdd, "", "bridge", 7));
}

// CHECK and DEL pass for a network that no rule names any more, too.
TEST(InvariantsOfCni, WhatWasAttachedIsCheckedAndDetached) {
  for (const CniVerb verb : {CniVerb::kCheck, CniVerb::kDel}) {
    EXPECT_TRUE(PassesCni(verb, "web", "bridge", 0));
    EXPECT_TRUE(PassesCni(verb, "web", "earlier", 0));
    EXPECT_FALSE(PassesCni(verb, "web", "a/b", 0));
    EXPECT_FALSE(PassesCni(verb, "", "bridge", 0));
  }
}

TEST(InvariantsOfCni, OthersAreOfNoAllocation) {
  EXPECT_TRUE(PassesCni(CniVerb::kGc, "", "", 0));
  EXPECT_TRUE(PassesCni(CniVerb::kList, "", "", 0));
  EXPECT_TRUE(PassesCni(CniVerb::kStatus, "", "bridge", 0));
  EXPECT_FALSE(PassesCni(CniVerb::kStatus, "", "macvlan", 0));
  EXPECT_FALSE(PassesCni(CniVerb::kStatus, "", "", 0));
  EXPECT_FALSE(PassesCni(static_cast<CniVerb>(0), "web", "bridge", 7));
  EXPECT_FALSE(PassesCni(static_cast<CniVerb>(7), "web", "bridge", 7));
}

TEST(InvariantsOfNetworks, ANamespaceAloneHasNoPartOfANetwork) {
  const auto passes = [](const auto& change) {
    Request request;
    request.kind = PlanKind::kCreateNetwork;
    request.body.network = NetworkPlan{};
    request.body.network.allocation = ToWire("web");
    change(&request.body.network);
    return PassesWithCni(request);
  };
  EXPECT_TRUE(passes([](NetworkPlan*) {}));
  EXPECT_TRUE(passes(
      [](NetworkPlan* plan) { plan->origin = NamespaceOrigin::kGiven; }));
  EXPECT_FALSE(
      passes([](NetworkPlan* plan) { plan->network = ToWire("default"); }));
  EXPECT_FALSE(passes([](NetworkPlan* plan) { plan->port_count = 1; }));
  EXPECT_FALSE(passes([](NetworkPlan* plan) { plan->flags = kIsolated; }));
}

TEST(InvariantsOfNetworks, RangesOfPortsAreBoundedTogether) {
  const auto passes = [](std::uint16_t count) {
    Request request;
    request.kind = PlanKind::kCreateNetwork;
    request.body.network = NetworkPlan{};
    NetworkPlan& plan = request.body.network;
    plan.allocation = ToWire("web");
    plan.network = ToWire("default");
    plan.interface = {"eth0"};
    plan.ipv4 = {10, 88, 0, 2};
    plan.port_count = 2;
    plan.ports[0] = {2000, 2000, kTcp, 0, 512};
    plan.ports[1] = {4000, 4000, kTcp, 0, count};
    return PassesWithCni(request);
  };
  EXPECT_TRUE(passes(512));
  EXPECT_FALSE(passes(513));
}

}  // namespace
}  // namespace mountd::exec
