// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/address/address.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/support/outcome.h"

namespace mountd::netns {
namespace {

TEST(AddressTest, Ipv4IsReadAsItIsWritten) {
  const auto address = ParseIpv4("10.88.0.254");
  ASSERT_EQ(MessageOf(address), "Ok");
  EXPECT_EQ(*address, (Ipv4{10, 88, 0, 254}));
  EXPECT_EQ(ToString(*address), "10.88.0.254");
  for (const char* text : {"", "10.88.0", "10.88.0.256", "10.88.0.1 ", "::1",
                           "010.1.1.1", "10.88.0.1/24"}) {
    EXPECT_EQ(Outcome(ParseIpv4(text)), "InvalidArgument") << text;
  }
}

TEST(AddressTest, Ipv6IsReadAsItIsWritten) {
  const auto address = ParseIpv6("fd88:0:0::a:1");
  ASSERT_EQ(MessageOf(address), "Ok");
  EXPECT_EQ((*address)[0], 0xfd);
  EXPECT_EQ((*address)[13], 0x0a);
  EXPECT_EQ((*address)[15], 0x01);
  EXPECT_EQ(ToString(*address), "fd88::a:1");
  for (const char* text :
       {"", "10.0.0.1", "fd88", "fd88:::1", "fe80::1%eth0"}) {
    EXPECT_EQ(Outcome(ParseIpv6(text)), "InvalidArgument") << text;
  }
}

TEST(AddressTest, NoneIsAllZero) {
  EXPECT_TRUE(IsNone(Ipv4{}));
  EXPECT_TRUE(IsNone(Ipv6{}));
  EXPECT_FALSE(IsNone(Ipv4{0, 0, 0, 1}));
  Ipv6 last{};
  last[15] = 1;
  EXPECT_FALSE(IsNone(last));
}

TEST(AddressTest, Ipv4RangesAreOfUsableSizes) {
  const auto range = ParseIpv4Range("10.88.0.0/16");
  ASSERT_EQ(MessageOf(range), "Ok");
  EXPECT_EQ(range->base, (Ipv4{10, 88, 0, 0}));
  EXPECT_EQ(range->prefix, 16);
  EXPECT_EQ(Outcome(ParseIpv4Range("10.0.0.0/8")), "Ok");
  EXPECT_EQ(Outcome(ParseIpv4Range("10.0.0.4/30")), "Ok");
  for (const char* text :
       {"10.88.0.0", "10.88.0.0/", "10.88.0.0/x", "10.88.0.0/16x",
        "10.88.0.0/ 16", "10.0.0.0/7", "10.0.0.4/31", "10.88.0.0/-16",
        "10.88.0.1/16", "10.0.0.2/30", "fd88::/64", "/16", ""}) {
    EXPECT_EQ(Outcome(ParseIpv4Range(text)), "InvalidArgument") << text;
  }
}

TEST(AddressTest, Ipv6RangesAreOfUsableSizes) {
  const auto range = ParseIpv6Range("fd88::/64");
  ASSERT_EQ(MessageOf(range), "Ok");
  EXPECT_EQ(range->prefix, 64);
  EXPECT_EQ(Outcome(ParseIpv6Range("fd88::/32")), "Ok");
  EXPECT_EQ(Outcome(ParseIpv6Range("fd88::ff00/120")), "Ok");
  for (const char* text : {"fd88::/31", "fd88::/121", "fd88::1/64",
                           "fd88::", "10.0.0.0/64", "fd88::/1000"}) {
    EXPECT_EQ(Outcome(ParseIpv6Range(text)), "InvalidArgument") << text;
  }
}

TEST(AddressTest, ARangeContainsWhatSharesItsPrefix) {
  const Ipv4Range odd = *ParseIpv4Range("10.88.8.0/21");
  EXPECT_TRUE(odd.Contains({10, 88, 8, 0}));
  EXPECT_TRUE(odd.Contains({10, 88, 15, 255}));
  EXPECT_FALSE(odd.Contains({10, 88, 16, 0}));
  EXPECT_FALSE(odd.Contains({10, 88, 7, 255}));
  EXPECT_FALSE(Ipv4Range{}.Contains({0, 0, 0, 0}));
  const Ipv6Range six = *ParseIpv6Range("fd88::/64");
  EXPECT_TRUE(six.Contains(*ParseIpv6("fd88::ffff")));
  EXPECT_FALSE(six.Contains(*ParseIpv6("fd88:0:0:1::")));
  EXPECT_FALSE(Ipv6Range{}.Contains(Ipv6{}));
}

TEST(AddressTest, NamesOnTheHostAreDerived) {
  EXPECT_EQ(HostLinkName({10, 88, 0, 254}), "md0a5800fe");
  EXPECT_EQ(LinkMac({10, 88, 0, 254}), (Mac{0x02, 0x4d, 10, 88, 0, 254}));
}

TEST(AddressTest, NamesOfIpv6AloneAreKnownByTheirForm) {
  Ipv6 address = *ParseIpv6("fd66::");
  for (int i = 0; i < 256; ++i) {
    address[15] = static_cast<std::uint8_t>(i);
    EXPECT_TRUE(IsLinkNameOfIpv6Alone(HostLinkName(Ipv4{}, address))) << i;
  }
  for (const char* other :
       {"", "md", "md0a5800fe", "md-0123456789ab", "md0123456789abcd",
        "md0123456789abw", "eth0123456789ab", "md0123456789abg",
        "md0123456789ABc"}) {
    EXPECT_FALSE(IsLinkNameOfIpv6Alone(other)) << other;
  }
  EXPECT_TRUE(IsLinkNameOfIpv6Alone("md0123456789abf"));
}

// The names must not change, because links of an earlier release have them.
TEST(AddressTest, NamesOfIpv6AloneAreHashes) {
  const Ipv6 first = *ParseIpv6("fd66::2");
  const std::string name = HostLinkName(Ipv4{}, first);
  EXPECT_EQ(name.size(), 15U) << "IFNAMSIZ without the NUL";
  EXPECT_EQ(name.substr(0, 2), "md");
  EXPECT_EQ(name.find_first_not_of("0123456789abcdefghijklmnopqrstuv", 2),
            std::string::npos);
  EXPECT_EQ(LinkMac(Ipv4{}, first)[0], 0x02);
  EXPECT_EQ(LinkMac(Ipv4{}, first)[1], 0x4d);
  std::set<std::string> names;
  for (const char* range : {"fd66::", "fd67::", "fd66:0:0:1::"}) {
    Ipv6 address = *ParseIpv6(range);
    for (int i = 0; i < 2000; ++i) {
      address[14] = static_cast<std::uint8_t>(i >> 8);
      address[15] = static_cast<std::uint8_t>(i);
      names.insert(HostLinkName(Ipv4{}, address));
    }
  }
  EXPECT_EQ(names.size(), 6000U);
  EXPECT_EQ(HostLinkName({10, 88, 0, 254}, first), "md0a5800fe")
      << "an IPv4 address alone decides the name";
  EXPECT_EQ(LinkMac({10, 88, 0, 254}, first), LinkMac({10, 88, 0, 254}));
}

}  // namespace
}  // namespace mountd::netns
