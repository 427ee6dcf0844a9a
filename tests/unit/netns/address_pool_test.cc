// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/ipam.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/outcome.h"

namespace mountd::netns {
namespace {

Ipam Make(const std::string& ipv4, const std::string& ipv6 = "") {
  return {*ParseIpv4Range(ipv4),
          ipv6.empty() ? Ipv6Range{} : *ParseIpv6Range(ipv6)};
}

std::string Next(Ipam& ipam) {
  const auto pair = ipam.Allocate();
  return pair ? ToString(pair->ipv4) : Outcome(pair);
}

TEST(IpamTest, TheNetworkTheHostAndTheLastAreNeverGivenOut) {
  Ipam ipam = Make("10.0.0.8/29");
  EXPECT_EQ(ipam.capacity(), 5U);
  std::set<std::string> given;
  for (std::uint32_t i = 0; i < ipam.capacity(); ++i) {
    given.insert(Next(ipam));
  }
  EXPECT_EQ(given, (std::set<std::string>{"10.0.0.10", "10.0.0.11", "10.0.0.12",
                                          "10.0.0.13", "10.0.0.14"}));
  EXPECT_EQ(ipam.free_count(), 0U);
  EXPECT_EQ(Next(ipam), "ResourceExhausted");
}

TEST(IpamTest, TheSmallestRangeHasOneAddress) {
  Ipam ipam = Make("10.0.0.4/30");
  EXPECT_EQ(ipam.capacity(), 1U);
  EXPECT_EQ(Next(ipam), "10.0.0.6");
  EXPECT_EQ(Next(ipam), "ResourceExhausted");
  ipam.Free({10, 0, 0, 6});
  EXPECT_EQ(Next(ipam), "10.0.0.6");
}

TEST(IpamTest, AFreedAddressIsTheLastToComeAgain) {
  Ipam ipam = Make("10.0.0.0/29");
  ASSERT_EQ(Next(ipam), "10.0.0.2");
  ipam.Free({10, 0, 0, 2});
  for (const char* next :
       {"10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.2"}) {
    EXPECT_EQ(Next(ipam), next);
  }
}

TEST(IpamTest, AReservedAddressIsNotGivenOut) {
  Ipam ipam = Make("10.0.0.0/29");
  EXPECT_TRUE(ipam.Reserve({10, 0, 0, 3}));
  EXPECT_FALSE(ipam.Reserve({10, 0, 0, 3}));
  EXPECT_EQ(ipam.free_count(), 4U);
  EXPECT_EQ(Next(ipam), "10.0.0.2");
  EXPECT_EQ(Next(ipam), "10.0.0.4");
  EXPECT_FALSE(ipam.Reserve({10, 0, 0, 4}));
}

TEST(IpamTest, WhatIsNotGivenOutIsNeitherReservedNorFreed) {
  Ipam ipam = Make("10.0.0.0/29");
  for (const Ipv4 address :
       {Ipv4{10, 0, 0, 0}, Ipv4{10, 0, 0, 1}, Ipv4{10, 0, 0, 7},
        Ipv4{10, 0, 0, 8}, Ipv4{9, 255, 255, 255}, Ipv4{}}) {
    EXPECT_FALSE(ipam.Reserve(address)) << ToString(address);
    ipam.Free(address);
  }
  ipam.Free({10, 0, 0, 2});
  EXPECT_EQ(ipam.free_count(), 5U);
}

TEST(IpamTest, BothAddressesHaveTheSameHostPart) {
  Ipam ipam = Make("10.1.0.0/16", "fd88::/64");
  ASSERT_TRUE(ipam.Reserve({10, 1, 0, 2}));
  for (int i = 0; i < 300; ++i) {
    ASSERT_NE(Next(ipam), "ResourceExhausted");
  }
  const auto pair = ipam.Allocate();
  EXPECT_EQ(ToString(pair->ipv4), "10.1.1.47");
  EXPECT_EQ(ToString(pair->ipv6), "fd88::12f");
}

TEST(IpamTest, WithoutAnIpv6RangeThereIsNone) {
  Ipam ipam = Make("10.0.0.0/24");
  EXPECT_TRUE(IsNone(ipam.Allocate()->ipv6));
}

TEST(IpamTest, ASmallerIpv6RangeLimitsBoth) {
  Ipam ipam = Make("10.0.0.0/16", "fd88::ff00/120");
  EXPECT_EQ(ipam.capacity(), 253U);
  std::set<std::string> given;
  for (std::uint32_t i = 0; i < ipam.capacity(); ++i) {
    const auto pair = ipam.Allocate();
    ASSERT_EQ(MessageOf(pair), "Ok");
    given.insert(ToString(pair->ipv6));
  }
  EXPECT_EQ(given.size(), 253U);
  EXPECT_TRUE(given.contains("fd88::ff02"));
  EXPECT_TRUE(given.contains("fd88::fffe"));
  EXPECT_EQ(Next(ipam), "ResourceExhausted");
  EXPECT_FALSE(ipam.Reserve({10, 0, 1, 0}));
}

TEST(IpamTest, TwoRangesDoNotMeet) {
  Ipam one = Make("10.0.0.0/30");
  Ipam two = Make("10.0.0.4/30");
  EXPECT_EQ(Next(one), "10.0.0.2");
  EXPECT_EQ(Next(two), "10.0.0.6");
  two.Free({10, 0, 0, 2});
  EXPECT_EQ(Next(one), "ResourceExhausted");
  EXPECT_EQ(Next(two), "ResourceExhausted");
}

TEST(IpamTest, TheLargestRangeCounts) {
  Ipam ipam = Make("10.0.0.0/8");
  EXPECT_EQ(ipam.capacity(), (1U << 24U) - 3);
  EXPECT_TRUE(ipam.Reserve({10, 255, 255, 254}));
  EXPECT_FALSE(ipam.Reserve({10, 255, 255, 255}));
}

}  // namespace
}  // namespace mountd::netns
