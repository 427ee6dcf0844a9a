// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Ports that are replaced while the network is there.
#include "tests/unit/mountd/networks/networks_test.h"

namespace mountd {
namespace {

PortMapping Tcp(std::uint16_t host, std::uint16_t container = 80) {
  return {"", host, container, exec::kTcp};
}

using Ports = std::vector<PortMapping>;

class NetworksPortsTest : public NetworksTest {
 protected:
  void SetUp() override {
    AllocationRecord web;
    web.id = "web";
    web.uid = Core::kAgent;
    ASSERT_EQ(Outcome(core_.state->allocations.AddAllocation(web)), "Ok");
    ASSERT_EQ(MessageOf(networks().Setup("web", Spec(20080))), "Ok");
  }
  // Leaves the agent these ports. Another user's rule grants more.
  void GrantAgent(const PortRange& ports) {
    Config config = core_.config;
    RuleConfig others = config.rules.front();
    others.uids = {Core::kOther};
    config.rules.front().uids = {Core::kAgent};
    config.rules.front().host_ports = {ports};
    config.rules.push_back(others);
    core_.live_config.ReplaceLive(std::move(config));
  }
  std::string Update(const Ports& ports,
                     const std::string& allocation = "web") {
    return Outcome(networks().UpdatePorts(allocation, "", ports));
  }
  // Returns the host ports that the kernel maps for the allocation.
  std::vector<unsigned> Mapped(const std::string& allocation = "web") {
    std::vector<unsigned> mapped;
    const auto found = executor().ListNetworks();
    for (const exec::FoundNetwork& one : *found) {
      for (std::uint32_t i = 0;
           exec::Text(one.allocation) == allocation && i < one.port_count;
           ++i) {
        mapped.push_back(one.ports.at(i).host_port);
      }
    }
    return mapped;
  }
  // Returns those of the record.
  std::vector<unsigned> Recorded(const std::string& allocation = "web") {
    std::vector<unsigned> recorded;
    const auto record = RecordOf(allocation);
    for (const PortMapping& port : record->ports) {
      recorded.push_back(port.host_port);
    }
    return recorded;
  }
  void ExpectPorts(const std::vector<unsigned>& ports) {
    EXPECT_EQ(Mapped(), ports);
    EXPECT_EQ(Recorded(), ports);
    EXPECT_FALSE(RecordOf("web")->next_ports.has_value());
  }
  void Restart() {
    core_.Restart();
    ASSERT_EQ(MessageOf(networks().Recover()), "Ok");
  }
  // Makes the update fail and leaves its outcome unknown.
  void LoseUpdate(FailWhen when,
                  const Ports& ports = {Tcp(20081), Tcp(20082)}) {
    executor().FailNext("UpdatePorts", Code::kUnavailable, when);
    executor().FailNext("InspectNetwork", Code::kUnavailable,
                        FailWhen::kBefore);
    ASSERT_EQ(Update(ports), "Unavailable");
    ASSERT_TRUE(RecordOf("web")->next_ports.has_value());
  }
};

TEST_F(NetworksPortsTest, TheNewPortsReplaceTheOld) {
  const auto status =
      networks().UpdatePorts("web", "eth0", {Tcp(20081), Tcp(20082, 0)});
  ASSERT_EQ(MessageOf(status), "Ok");
  ASSERT_EQ(status->ports.size(), 2U);
  EXPECT_EQ(status->ports[1].container_port, 20082U);
  ExpectPorts({20081, 20082});
  EXPECT_EQ(Outcome(networks().Setup("db", Spec(20081))), "AlreadyExists");
  EXPECT_EQ(Outcome(networks().Setup("db", Spec(20080))), "Ok");
  Restart();
  ExpectPorts({20081, 20082});
  EXPECT_EQ(Update({}), "Ok");
  ExpectPorts({});
  EXPECT_EQ(Outcome(networks().Setup("c", Spec(20081))), "Ok");
}

TEST_F(NetworksPortsTest, TheSameCallAgainNeedsNoPlan) {
  ASSERT_EQ(Update({Tcp(20081)}), "Ok");
  executor().script().Forget();
  EXPECT_EQ(Update({Tcp(20081)}), "Ok");
  EXPECT_EQ(executor().script().Count("UpdatePorts"), 0U);
  // SetupNetwork has to name the new ports.
  EXPECT_EQ(Outcome(networks().Setup("web", Spec(20080))),
            "FailedPrecondition");
  NetworkRequest now;
  now.ports = {Tcp(20081)};
  EXPECT_EQ(Outcome(networks().Setup("web", now)), "Ok");
}

TEST_F(NetworksPortsTest, ATakenPortIsRefusedAndNothingChanges) {
  ASSERT_EQ(Outcome(networks().Setup("db", Spec(20081))), "Ok");
  EXPECT_EQ(Update({Tcp(20082), Tcp(20081)}), "AlreadyExists");
  ExpectPorts({20080});
  executor().PutHostSocket(20083);
  EXPECT_EQ(Update({Tcp(20080), Tcp(20083)}), "AlreadyExists");
  ExpectPorts({20080});
  EXPECT_EQ(Outcome(networks().Setup("c", Spec(20082))), "Ok");
  EXPECT_EQ(Outcome(networks().Setup("d", Spec(20080))), "AlreadyExists");
  // A socket that was bound later takes no port from the network.
  executor().PutHostSocket(20080);
  EXPECT_EQ(Update({Tcp(20080), Tcp(20084)}), "Ok");
  ExpectPorts({20080, 20084});
}

TEST_F(NetworksPortsTest, APortMayLeadElsewhereThanBefore) {
  EXPECT_EQ(Update({Tcp(20080, 81)}), "Ok");
  ExpectPorts({20080});
  EXPECT_EQ(RecordOf("web")->ports[0].container_port, 81U);
}

TEST_F(NetworksPortsTest, AnUnknownOutcomeIsSettledAtOnce) {
  executor().FailNext("UpdatePorts", Code::kUnavailable, FailWhen::kBefore);
  EXPECT_EQ(Update({Tcp(20081)}), "Unavailable");
  ExpectPorts({20080});
  executor().FailNext("UpdatePorts", Code::kUnavailable, FailWhen::kAfter);
  EXPECT_EQ(Update({Tcp(20081)}), "Unavailable");
  ExpectPorts({20081});
  EXPECT_EQ(Update({Tcp(20081)}), "Ok");
}

// The kernel would refuse the map of another bridge, but maps nothing for a
// network of the host.
TEST_F(NetworksPortsTest, NobodyGetsThePortsOfEitherSetBeforeTheOutcome) {
  const auto host = [&](std::uint16_t port) {
    NetworkRequest request;
    request.mode = NetworkMode::kHost;
    request.ports = {Tcp(port)};
    return Outcome(networks().Setup("db" + std::to_string(port), request));
  };
  LoseUpdate(FailWhen::kBefore);
  EXPECT_EQ(host(20080), "AlreadyExists");
  EXPECT_EQ(host(20081), "AlreadyExists");
  core_.Restart();
  executor().FailNext("InspectNetwork", Code::kUnavailable, FailWhen::kBefore);
  ASSERT_EQ(MessageOf(networks().Recover()), "Ok");
  EXPECT_EQ(host(20080), "AlreadyExists");
  EXPECT_EQ(host(20081), "AlreadyExists");
  EXPECT_EQ(Update({Tcp(20080), Tcp(20083)}), "Ok");
  ExpectPorts({20080, 20083});
  EXPECT_EQ(host(20081), "Ok");
  EXPECT_EQ(Update({Tcp(20083)}), "Ok");
  EXPECT_EQ(host(20080), "Ok");
}

TEST_F(NetworksPortsTest, AStartSettlesWhatWasCutOff) {
  LoseUpdate(FailWhen::kBefore);
  Restart();
  ExpectPorts({20080});
  LoseUpdate(FailWhen::kAfter);
  Restart();
  ExpectPorts({20081, 20082});
  EXPECT_EQ(Outcome(networks().Setup("db", Spec(20080))), "Ok");
}

TEST_F(NetworksPortsTest, TheNextCallSettlesWhatWasCutOff) {
  LoseUpdate(FailWhen::kAfter);
  EXPECT_EQ(Update({Tcp(20083)}), "Ok");
  ExpectPorts({20083});
  LoseUpdate(FailWhen::kBefore);
  NetworkRequest now;
  now.ports = {Tcp(20083)};
  EXPECT_EQ(Outcome(networks().Setup("web", now)), "Ok");
  ExpectPorts({20083});
  LoseUpdate(FailWhen::kAfter);
  ASSERT_EQ(Outcome(networks().Repair(*RecordOf("web"))), "Ok");
  ExpectPorts({20081, 20082});
}

TEST_F(NetworksPortsTest, OldPortsThatNoRuleGrantsAnyMoreAreSettled) {
  LoseUpdate(FailWhen::kBefore);
  // Only the first plan names the old ports as those to map.
  executor().FailNext("UpdatePorts", Code::kInvalidArgument, FailWhen::kBefore);
  EXPECT_EQ(Update({Tcp(20083)}), "Ok");
  ExpectPorts({20083});
}

// The caller was not told that the next ports are mapped.
TEST_F(NetworksPortsTest, NextPortsThatNoRuleGrantsAnyMoreGoBack) {
  LoseUpdate(FailWhen::kAfter);
  core_.Restart();
  executor().FailNext("UpdatePorts", Code::kInvalidArgument, FailWhen::kBefore);
  ASSERT_EQ(MessageOf(networks().Recover()), "Ok");
  ExpectPorts({20080});
  EXPECT_EQ(Outcome(networks().Setup("db", Spec(20081))), "Ok");
}

// The executor refuses only ports that no user's rule grants.
TEST_F(NetworksPortsTest, NextPortsThatOnlyAnotherUsersRuleGrantsGoBack) {
  LoseUpdate(FailWhen::kAfter);
  GrantAgent({20080, 20081});  // and not 20082
  Restart();
  ExpectPorts({20080});
  EXPECT_EQ(Outcome(networks().Setup("db", Spec(20082))), "Ok");
  LoseUpdate(FailWhen::kAfter, {Tcp(20084)});
  ASSERT_EQ(Outcome(networks().Repair(*RecordOf("web"))), "Ok");
  ExpectPorts({20080});
  LoseUpdate(FailWhen::kAfter, {Tcp(20084)});
  EXPECT_EQ(Update({Tcp(20080), Tcp(20081)}), "Ok");
  ExpectPorts({20080, 20081});
  // The agent's own rules grant this port.
  LoseUpdate(FailWhen::kAfter, {Tcp(20081)});
  Restart();
  ExpectPorts({20081});
}

TEST_F(NetworksPortsTest, NextPortsOfAnUnknownUserGoBack) {
  LoseUpdate(FailWhen::kAfter);
  ReceiptRecord receipt;
  receipt.allocation = "web";
  receipt.uid = Core::kAgent;
  ASSERT_EQ(Outcome(core_.state->allocations.FinishAllocation(receipt)), "Ok");
  Restart();
  ExpectPorts({20080});
}

TEST_F(NetworksPortsTest, PortsThatMayNeitherGoOnNorBackStay) {
  LoseUpdate(FailWhen::kAfter);
  GrantAgent({20090, 20091});
  executor().FailNext("UpdatePorts", Code::kInvalidArgument, FailWhen::kBefore);
  Restart();
  ExpectPorts({20081, 20082});
}

TEST_F(NetworksPortsTest, ANetworkIsUsableIfNoRuleGrantsEitherSet) {
  LoseUpdate(FailWhen::kAfter);
  executor().FailNext("UpdatePorts", Code::kInvalidArgument, FailWhen::kBefore,
                      2);
  EXPECT_EQ(Update({Tcp(20083)}), "Ok");
  ExpectPorts({20083});
}

TEST_F(NetworksPortsTest, ATeardownRemovesWhatWasCutOff) {
  for (const FailWhen when : {FailWhen::kBefore, FailWhen::kAfter}) {
    LoseUpdate(when);
    ASSERT_EQ(Outcome(Teardown("web")), "Ok");
    networks().ReapQuarantine();
    EXPECT_TRUE(Existing().empty());
    ASSERT_EQ(Outcome(networks().Setup("db", Spec(20081))), "Ok");
    ASSERT_EQ(Outcome(Teardown("db")), "Ok");
    networks().ReapQuarantine();
    ASSERT_EQ(Outcome(networks().Setup("web", Spec(20080))), "Ok");
  }
}

TEST_F(NetworksPortsTest, UdpIsMappedIfItIsFree) {
  executor().PutHostSocket(20081, exec::kUdp);
  PortMapping port = Tcp(20081);
  port.protocols = exec::kTcp | exec::kUdp;
  port.if_free = exec::kUdp;
  const auto status = networks().UpdatePorts("web", "", {port});
  ASSERT_EQ(MessageOf(status), "Ok");
  EXPECT_EQ(status->ports[0].protocols, exec::kTcp);
  EXPECT_EQ(RecordOf("web")->ports[0].protocols, exec::kTcp);
  NetworkRequest udp = Spec(20081);
  udp.ports[0].protocols = exec::kUdp;
  executor().PutHostSocket(20081, 0);
  EXPECT_EQ(Outcome(networks().Setup("db", udp)), "Ok");
}

TEST_F(NetworksPortsTest, OnlyABridgeHasPortsToReplace) {
  NetworkRequest none;
  none.mode = NetworkMode::kNone;
  ASSERT_EQ(Outcome(networks().Setup("db", none)), "Ok");
  EXPECT_EQ(Update({Tcp(20081)}, "db"), "FailedPrecondition");
  EXPECT_EQ(Update({Tcp(20081)}, "nobody"), "NotFound");
  EXPECT_EQ(Update({Tcp(0)}), "InvalidArgument");
  EXPECT_EQ(Update({Tcp(20081), Tcp(20081)}), "InvalidArgument");
  ExpectPorts({20080});
}

}  // namespace
}  // namespace mountd
