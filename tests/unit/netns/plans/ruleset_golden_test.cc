// SPDX-License-Identifier: LGPL-2.1-or-later
// The nftables ruleset that mountd makes, as files that nft(8) loads. The root
// label tests that packets pass the rules as they should.
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "netns/address/address.h"
#include "netns/plans/ruleset.h"
#include "tests/golden/golden.h"

namespace mountd::netns {
namespace {

using mountd::test::ExpectGolden;
using mountd::test::ExpectGoldenFiles;
using Texts = std::initializer_list<const char*>;

NetworkConfig Network(Texts ipv4, Texts ipv6) {
  NetworkConfig network;
  for (const char* range : ipv4) {
    network.ipv4.push_back(ParseIpv4Range(range).value());
  }
  for (const char* range : ipv6) {
    network.ipv6.push_back(ParseIpv6Range(range).value());
  }
  return network;
}

TEST(RulesetGolden, OfOneNetworkWithBothFamilies) {
  Config config;
  config.networks["default"] = Network({"10.88.0.0/16"}, {"fd88::/64"});
  ExpectGolden("ruleset/default.nft", RulesetFor(config).commands);
}

TEST(RulesetGolden, OfANetworkWithoutIpv6) {
  Config config;
  config.networks["default"] = Network({"10.88.0.0/16"}, {});
  ExpectGolden("ruleset/ipv4.nft", RulesetFor(config).commands);
}

TEST(RulesetGolden, OfANetworkWithIpv6Alone) {
  Config config;
  config.networks["default"] = Network({}, {"fd88::/64"});
  ExpectGolden("ruleset/ipv6.nft", RulesetFor(config).commands);
}

TEST(RulesetGolden, OfTwoNetworksOneWithRangesThatHaveRoutesBack) {
  Config config;
  NetworkConfig& routed = config.networks["default"];
  routed = Network({"10.88.0.0/16", "10.90.0.0/20"}, {"fd88::/64"});
  routed.no_masquerade4 = {ParseIpv4Range("192.168.0.0/16").value(),
                           ParseIpv4Range("192.168.7.0/24").value()};
  routed.no_masquerade6 = {ParseIpv6Range("fd00:7::/64").value()};
  config.networks["lab"] = Network({"10.99.0.0/24"}, {});
  ExpectGolden("ruleset/two-networks.nft", RulesetFor(config).commands);
}

TEST(RulesetGolden, NoFileIsLeftBehind) {
  ExpectGoldenFiles(
      "ruleset", {"default.nft", "ipv4.nft", "ipv6.nft", "two-networks.nft"});
}

// mountd loads the rules again only if the version differs.
TEST(Ruleset, AnotherTextIsAnotherVersion) {
  Config config;
  config.networks["default"] = Network({"10.88.0.0/16"}, {"fd88::/64"});
  const Ruleset one = RulesetFor(config);
  EXPECT_EQ(RulesetFor(config).version, one.version);
  config.networks["default"].no_masquerade4 = {
      ParseIpv4Range("192.168.0.0/16").value()};
  EXPECT_NE(RulesetFor(config).version, one.version);
  EXPECT_NE(one.commands.find(std::to_string(one.version)), std::string::npos);
}

}  // namespace
}  // namespace mountd::netns
