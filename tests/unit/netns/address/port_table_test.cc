// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/address/port_table.h"

#include <gtest/gtest.h>
#include <netinet/in.h>

#include "tests/support/outcome.h"

namespace mountd::netns {
namespace {

HostPorts Tcp(std::uint16_t first, std::uint16_t count = 1,
              const char* address = "") {
  return {IPPROTO_TCP, first, count, *ParseHostIp(address)};
}

class PortTableTest : public ::testing::Test {
 protected:
  std::string Take(const std::string& owner,
                   const std::vector<HostPorts>& ports) {
    return MessageOf(table_.Take(owner, ports));
  }
  PortTable table_;
};

TEST_F(PortTableTest, APortIsOnesUntilItIsFreed) {
  EXPECT_EQ(Take("web", {Tcp(80)}), "Ok");
  EXPECT_EQ(Take("db", {Tcp(80)}),
            "map host port 80/tcp: is already mapped; ask for another");
  EXPECT_EQ(Take("db", {{IPPROTO_UDP, 80, 1, {}}}), "Ok");
  table_.Free("web");
  EXPECT_EQ(Take("c", {Tcp(80)}), "Ok");
}

TEST_F(PortTableTest, PortsAreFreeIfNobodyHasOneAtTheAddress) {
  EXPECT_EQ(Take("web", {Tcp(80, 2, "127.0.0.1")}), "Ok");
  EXPECT_TRUE(table_.AreFree(Tcp(82)));
  EXPECT_TRUE(table_.AreFree(Tcp(80, 2, "127.0.0.2")));
  EXPECT_TRUE(table_.AreFree({IPPROTO_UDP, 80, 1, {}}));
  EXPECT_FALSE(table_.AreFree(Tcp(81)));
  EXPECT_FALSE(table_.AreFree(Tcp(79, 2)));
  table_.Free("web");
  EXPECT_TRUE(table_.AreFree(Tcp(79, 4)));
}

TEST_F(PortTableTest, ARefusalTakesNothing) {
  EXPECT_EQ(Take("web", {Tcp(80)}), "Ok");
  EXPECT_NE(Take("db", {Tcp(70, 10), Tcp(79, 2)}), "Ok");
  EXPECT_EQ(Take("c", {Tcp(70, 10)}), "Ok");
}

TEST_F(PortTableTest, RangesMeetWhereTheyOverlap) {
  EXPECT_EQ(Take("web", {Tcp(100, 10)}), "Ok");
  EXPECT_EQ(Take("db", {Tcp(95, 6)}),
            "map host port 100/tcp: is already mapped; ask for another");
  EXPECT_EQ(Take("db", {Tcp(109, 1)}),
            "map host port 109/tcp: is already mapped; ask for another");
  EXPECT_EQ(Take("db", {Tcp(90, 10), Tcp(110, 1)}), "Ok");
}

TEST_F(PortTableTest, AnAddressMeetsItselfAndAnyOfItsFamily) {
  EXPECT_EQ(Take("a", {Tcp(80, 1, "192.0.2.1")}), "Ok");
  EXPECT_EQ(Take("b", {Tcp(80, 1, "192.0.2.2")}), "Ok");
  EXPECT_EQ(Take("c", {Tcp(80, 1, "fd00::1")}), "Ok");
  EXPECT_NE(Take("d", {Tcp(80, 1, "192.0.2.1")}), "Ok");
  EXPECT_NE(Take("d", {Tcp(80, 1, "0.0.0.0")}), "Ok");
  EXPECT_NE(Take("d", {Tcp(80, 1, "::")}), "Ok");
  EXPECT_NE(Take("d", {Tcp(80)}), "Ok");
  table_.Free("c");
  EXPECT_EQ(Take("d", {Tcp(80, 1, "::")}), "Ok");
  EXPECT_NE(Take("e", {Tcp(80, 1, "fd00::2")}), "Ok");
}

TEST_F(PortTableTest, TwiceTheSameIsTheCallersMistake) {
  EXPECT_EQ(Take("web", {Tcp(80), Tcp(80, 1, "127.0.0.1")}),
            "map host port 80/tcp: is named twice in one request");
  EXPECT_EQ(Take("web", {Tcp(80, 1, "192.0.2.1"), Tcp(80, 1, "127.0.0.1")}),
            "Ok");
}

TEST_F(PortTableTest, FreePortsAreCountedOnce) {
  EXPECT_EQ(table_.CountFree(100, 199), 100U);
  EXPECT_EQ(Take("a", {Tcp(100, 10), {IPPROTO_UDP, 100, 10, {}}}), "Ok");
  EXPECT_EQ(Take("b", {Tcp(199), Tcp(200), Tcp(99)}), "Ok");
  EXPECT_EQ(table_.CountFree(100, 199), 89U);
  EXPECT_EQ(table_.CountFree(200, 100), 0U);
  table_.Free("a");
  EXPECT_EQ(table_.CountFree(100, 199), 99U);
}

TEST_F(PortTableTest, TheLastPortIsTheEnd) {
  EXPECT_EQ(Take("a", {Tcp(65535)}), "Ok");
  EXPECT_EQ(table_.CountFree(65535, 65535), 0U);
}

}  // namespace
}  // namespace mountd::netns
