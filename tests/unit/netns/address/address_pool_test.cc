// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/address/address_pool.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/support/outcome.h"

namespace mountd::netns {
namespace {

AddressPool<Ipv4> Pool4(const std::vector<std::string>& ranges) {
  std::vector<Ipv4Range> parsed;
  for (const std::string& range : ranges) {
    parsed.push_back(*ParseIpv4Range(range));
  }
  return AddressPool<Ipv4>(parsed);
}

template <typename Address>
std::string NextOf(AddressPool<Address>& pool) {
  const auto address = pool.Allocate();
  return address ? ToString(*address) : Outcome(address);
}

TEST(AddressPoolTest, TheNetworkTheHostAndTheLastAreNeverGivenOut) {
  auto pool = Pool4({"10.0.0.8/29"});
  EXPECT_EQ(pool.capacity(), 5U);
  std::set<std::string> given;
  for (std::uint64_t i = 0; i < pool.capacity(); ++i) {
    given.insert(NextOf(pool));
  }
  EXPECT_EQ(given, (std::set<std::string>{"10.0.0.10", "10.0.0.11", "10.0.0.12",
                                          "10.0.0.13", "10.0.0.14"}));
  EXPECT_EQ(pool.free_count(), 0U);
  EXPECT_EQ(NextOf(pool), "ResourceExhausted");
}

TEST(AddressPoolTest, TheSmallestRangeHasOneAddress) {
  auto pool = Pool4({"10.0.0.4/30"});
  EXPECT_EQ(pool.capacity(), 1U);
  EXPECT_EQ(NextOf(pool), "10.0.0.6");
  EXPECT_EQ(NextOf(pool), "ResourceExhausted");
  pool.Free({10, 0, 0, 6});
  EXPECT_EQ(NextOf(pool), "10.0.0.6");
}

TEST(AddressPoolTest, AFreedAddressIsTheLastToComeAgain) {
  auto pool = Pool4({"10.0.0.0/29"});
  ASSERT_EQ(NextOf(pool), "10.0.0.2");
  pool.Free({10, 0, 0, 2});
  for (const char* next :
       {"10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.2"}) {
    EXPECT_EQ(NextOf(pool), next);
  }
}

TEST(AddressPoolTest, RangesAreUsedOneAfterTheOther) {
  auto pool = Pool4({"10.0.0.0/30", "192.168.7.0/29"});
  EXPECT_EQ(pool.capacity(), 6U);
  EXPECT_EQ(NextOf(pool), "10.0.0.2");
  EXPECT_EQ(NextOf(pool), "192.168.7.2");
  for (int i = 0; i < 4; ++i) {
    EXPECT_NE(NextOf(pool), "ResourceExhausted");
  }
  EXPECT_EQ(NextOf(pool), "ResourceExhausted");
  pool.Free({10, 0, 0, 2});
  EXPECT_EQ(NextOf(pool), "10.0.0.2");
}

TEST(AddressPoolTest, OneThatIsAskedForIsTakenOnce) {
  auto pool = Pool4({"10.0.0.0/29"});
  EXPECT_EQ(MessageOf(pool.Take({10, 0, 0, 3})), "Ok");
  EXPECT_EQ(Outcome(pool.Take({10, 0, 0, 3})), "AlreadyExists");
  EXPECT_EQ(pool.free_count(), 4U);
  EXPECT_EQ(NextOf(pool), "10.0.0.2");
  EXPECT_EQ(NextOf(pool), "10.0.0.4");
  EXPECT_EQ(Outcome(pool.Take({10, 0, 0, 4})), "AlreadyExists");
}

TEST(AddressPoolTest, WhatNoAllocationMayHaveIsRefused) {
  auto pool = Pool4({"10.0.0.0/29"});
  for (const Ipv4 address :
       {Ipv4{10, 0, 0, 0}, Ipv4{10, 0, 0, 1}, Ipv4{10, 0, 0, 7},
        Ipv4{10, 0, 0, 8}, Ipv4{9, 255, 255, 255}, Ipv4{}}) {
    EXPECT_EQ(Outcome(pool.Take(address)), "InvalidArgument")
        << ToString(address);
    pool.Free(address);
  }
  EXPECT_EQ(pool.free_count(), 5U);
}

TEST(AddressPoolTest, OfIpv6AnyAddressOfTheRangeCanBeAskedFor) {
  AddressPool<Ipv6> pool({*ParseIpv6Range("fd88::/64")});
  EXPECT_EQ(pool.capacity(), AddressPool<Ipv6>::kMostOfARange);
  EXPECT_EQ(MessageOf(pool.Take(*ParseIpv6("fd88::1234:5678:9abc:def0"))),
            "Ok");
  EXPECT_EQ(Outcome(pool.Take(*ParseIpv6("fd88::1"))), "InvalidArgument");
  EXPECT_EQ(Outcome(pool.Take(*ParseIpv6("fd89::2"))), "InvalidArgument");
  for (int i = 0; i < 300; ++i) {
    ASSERT_NE(NextOf(pool), "ResourceExhausted");
  }
  EXPECT_EQ(NextOf(pool), "fd88::12e");
}

TEST(AddressPoolTest, OfIpv6TheLastAddressIsOneLikeAnother) {
  AddressPool<Ipv6> pool({*ParseIpv6Range("fd88::ff00/120")});
  EXPECT_EQ(pool.capacity(), 254U);
  std::set<std::string> given;
  for (std::uint64_t i = 0; i < pool.capacity(); ++i) {
    given.insert(NextOf(pool));
  }
  EXPECT_EQ(given.size(), 254U);
  EXPECT_TRUE(given.contains("fd88::ff02"));
  EXPECT_TRUE(given.contains("fd88::ffff"));
  EXPECT_EQ(NextOf(pool), "ResourceExhausted");
}

TEST(AddressPoolTest, TheLargestRangeCounts) {
  auto pool = Pool4({"10.0.0.0/8"});
  EXPECT_EQ(pool.capacity(), (1U << 24U) - 3);
  EXPECT_EQ(MessageOf(pool.Take({10, 255, 255, 254})), "Ok");
  EXPECT_EQ(Outcome(pool.Take({10, 255, 255, 255})), "InvalidArgument");
}

TEST(AddressPoolTest, WithoutRangesThereIsNone) {
  AddressPool<Ipv6> pool({});
  EXPECT_TRUE(pool.empty());
  EXPECT_EQ(NextOf(pool), "ResourceExhausted");
  EXPECT_EQ(Outcome(pool.Take(*ParseIpv6("fd88::2"))), "InvalidArgument");
}

}  // namespace
}  // namespace mountd::netns
