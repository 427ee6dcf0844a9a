// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Ports of which a protocol is mapped only if it is free.
#include <gmock/gmock.h>

#include "tests/unit/mountd/networks/networks_test.h"

namespace mountd {
namespace {

constexpr std::uint8_t kBoth = exec::kTcp | exec::kUdp;

// Returns a request for TCP, and for UDP if it is free.
NetworkRequest UdpIfFree(std::uint16_t host_port, std::uint16_t count = 1) {
  NetworkRequest request = Spec(host_port);
  request.ports[0].protocols = kBoth;
  request.ports[0].if_free = exec::kUdp;
  request.ports[0].count = count;
  return request;
}

NetworkRequest Udp(std::uint16_t host_port) {
  NetworkRequest request = Spec(host_port);
  request.ports[0].protocols = exec::kUdp;
  return request;
}

class NetworksIfFreeTest : public NetworksTest {
 protected:
  // Returns the protocols of the first port that the network maps.
  unsigned SetUpNetwork(const std::string& allocation,
                        const NetworkRequest& request) {
    const auto status = networks().Setup(allocation, request);
    EXPECT_EQ(MessageOf(status), "Ok");
    return status ? status->ports.at(0).protocols : 0U;
  }
  void Restart() {
    core_.Restart();
    ASSERT_EQ(MessageOf(networks().Recover()), "Ok");
  }
};

TEST_F(NetworksIfFreeTest, AFreeOneIsMapped) {
  EXPECT_EQ(SetUpNetwork("web", UdpIfFree(20080)), kBoth);
  EXPECT_EQ(executor().plans().back().body.network.ports[0].if_free,
            exec::kUdp);
  EXPECT_EQ(Outcome(networks().Setup("db", Udp(20080))), "AlreadyExists");
}

TEST_F(NetworksIfFreeTest, OneThatAnAllocationHasIsLeftOut) {
  SetUpNetwork("db", Udp(20081));
  EXPECT_EQ(SetUpNetwork("web", UdpIfFree(20080, 2)), exec::kTcp)
      << "of a row all ports or none";
  EXPECT_EQ(SetUpNetwork("other", Udp(20080)), exec::kUdp) << "it is free";
}

TEST_F(NetworksIfFreeTest, OneThatASocketHasIsLeftOutAndStaysFree) {
  executor().PutHostSocket(20080, exec::kUdp);
  EXPECT_EQ(SetUpNetwork("web", UdpIfFree(20080)), exec::kTcp);
  EXPECT_EQ(RecordOf("web")->ports[0].protocols, exec::kTcp);
  EXPECT_EQ(RecordOf("web")->ports[0].if_free, exec::kUdp);
  // The same call gets the same answer, also after the port is free.
  executor().PutHostSocket(20080, 0);
  EXPECT_EQ(SetUpNetwork("web", UdpIfFree(20080)), exec::kTcp);
  Restart();
  EXPECT_EQ(SetUpNetwork("web", UdpIfFree(20080)), exec::kTcp);
  EXPECT_EQ(SetUpNetwork("db", Udp(20080)), exec::kUdp);
  // A repair maps what is recorded.
  ASSERT_EQ(Outcome(networks().Repair(*RecordOf("web"))), "Ok");
  EXPECT_EQ(executor().plans().back().body.network.ports[0].protocols,
            exec::kTcp);
}

TEST_F(NetworksIfFreeTest, TheOtherProtocolMustBeFree) {
  executor().PutHostSocket(20080, exec::kTcp);
  EXPECT_EQ(Outcome(networks().Setup("web", UdpIfFree(20080))),
            "AlreadyExists");
  EXPECT_TRUE(Existing().empty());
}

TEST_F(NetworksIfFreeTest, APortMayHaveNothingMapped) {
  executor().PutHostSocket(20080);
  NetworkRequest request = Udp(20080);
  request.ports[0].if_free = exec::kUdp;
  request.ports.push_back({"http", 20081, 80, exec::kTcp});
  EXPECT_EQ(SetUpNetwork("web", request), 0U);
  Restart();
  ASSERT_EQ(Outcome(networks().Repair(*RecordOf("web"))), "Ok");
  const exec::NetworkPlan plan = executor().plans().back().body.network;
  ASSERT_EQ(plan.port_count, 1U);
  EXPECT_EQ(plan.ports[0].host_port, 20081U);
}

TEST_F(NetworksIfFreeTest, AnotherRequestIsAnotherNetwork) {
  SetUpNetwork("web", UdpIfFree(20080));
  NetworkRequest must = UdpIfFree(20080);
  must.ports[0].if_free = 0;
  EXPECT_EQ(Outcome(networks().Setup("web", must)), "FailedPrecondition");
}

TEST_F(NetworksIfFreeTest, AnAnswerThatIsLostLeavesNothing) {
  executor().PutHostSocket(20080, exec::kUdp);
  executor().FailNext("CreateNetwork", Code::kUnavailable, FailWhen::kAfter);
  EXPECT_EQ(Outcome(networks().Setup("web", UdpIfFree(20080))), "Unavailable");
  EXPECT_TRUE(Existing().empty());
  EXPECT_EQ(SetUpNetwork("web", UdpIfFree(20080)), exec::kTcp);
}

// In the other modes mountd maps no port itself, so that it could not leave one
// out. The message says how to go on.
TEST_F(NetworksIfFreeTest, OnlyABridgeMapsSo) {
  const auto refusal = [&](NetworkMode mode) {
    NetworkRequest request = UdpIfFree(20080);
    request.mode = mode;
    const auto status = networks().Setup("web", request);
    EXPECT_EQ(Outcome(status), "InvalidArgument");
    return MessageOf(status);
  };
  using ::testing::HasSubstr;
  for (const NetworkMode mode : {NetworkMode::kHost, NetworkMode::kCni}) {
    EXPECT_THAT(refusal(mode), HasSubstr("leave the ? out or use mode bridge"));
  }
  for (const NetworkMode mode : {NetworkMode::kNone, NetworkMode::kDriver}) {
    EXPECT_THAT(refusal(mode),
                HasSubstr("leave the ports out or use mode bridge"));
  }
  EXPECT_TRUE(Existing().empty());
  EXPECT_FALSE(RecordOf("web").has_value());
}

TEST_F(NetworksIfFreeTest, AFoundNetworkIsTakenOverWithAndWithout) {
  for (const std::uint8_t taken : {std::uint8_t{0}, std::uint8_t{exec::kUdp}}) {
    executor().PutHostSocket(20080, taken);
    SetUpNetwork("web", UdpIfFree(20080));
    ASSERT_EQ(Outcome(core_.boot->networks.RemoveNetwork(*RecordOf("web"))),
              "Ok");
    Restart();
    EXPECT_EQ(SetUpNetwork("web", UdpIfFree(20080)),
              taken == 0 ? kBoth : std::uint8_t{exec::kTcp});
    ASSERT_EQ(Outcome(Teardown("web")), "Ok");
    networks().ReapQuarantine();
  }
}

}  // namespace
}  // namespace mountd
