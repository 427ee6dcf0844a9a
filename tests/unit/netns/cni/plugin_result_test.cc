// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/plugin_result.h"

#include <gtest/gtest.h>

#include "tests/support/outcome.h"

namespace mountd::cni {
namespace {

Result<PluginResult> Read(const std::string& text) {
  return ReadPluginResult(Json::parse(text), "1.0.0");
}

std::string StatusText(const std::string& text) {
  const auto result = Read(text);
  if (!result) {
    return result.error().Message();
  }
  const auto status = StatusOf(*result, "eth0");
  return status ? status->interface + " " + status->address + " " +
                      status->address6
                : Outcome(status);
}

TEST(CniPluginResultTest, AResultIsRead) {
  const auto result = Read(R"({"cniVersion": "1.0.0",
    "interfaces": [{"name": "br", "mac": "02:00:00:00:00:01"},
                   {"name": "eth0", "sandbox": "/run/netns/web", "mtu": 1400}],
    "ips": [{"address": "10.0.0.2/24", "gateway": "10.0.0.1", "interface": 1},
            {"version": "6", "address": "FD00:0::2/64"}],
    "routes": [{"dst": "0.0.0.0/0", "gw": "10.0.0.1"}],
    "dns": {"nameservers": ["10.0.0.1"], "domain": "a", "search": ["b"],
            "options": ["c"]}, "unknown": {}})");
  ASSERT_EQ(MessageOf(result), "Ok");
  EXPECT_EQ(ToJson(*result), Json::parse(R"({"cniVersion": "1.0.0",
    "interfaces": [{"name": "br", "mac": "02:00:00:00:00:01", "sandbox": ""},
                   {"name": "eth0", "mac": "", "sandbox": "/run/netns/web",
                    "mtu": 1400}],
    "ips": [{"address": "10.0.0.2/24", "gateway": "10.0.0.1", "interface": 1},
            {"address": "fd00::2/64", "gateway": ""}],
    "routes": [{"dst": "0.0.0.0/0", "gw": "10.0.0.1"}],
    "dns": {"nameservers": ["10.0.0.1"], "domain": "a", "search": ["b"],
            "options": ["c"]}})"));
}

TEST(CniPluginResultTest, WhatIsNoneIsRefused) {
  std::string many = R"({"ips":[)";
  for (int i = 0; i < 100; ++i) {
    many += R"({"address":"10.0.0.2/24"},)";
  }
  many += R"({"address":"10.0.0.2/24"}]})";
  const std::vector<std::string> bad = {
      many,
      R"({"cniVersion":"0.4.0"})",
      R"({"interfaces":{}})",
      R"({"interfaces":[{}]})",
      R"({"interfaces":[1]})",
      R"({"interfaces":[{"name":"a\u0001"}]})",
      R"({"interfaces":[{"name":1}]})",
      R"({"interfaces":[{"name":"a","mtu":-1}]})",
      R"({"interfaces":[{"name":")" + std::string(300, 'a') + R"("}]})",
      R"({"ips":[{}]})",
      R"({"ips":[{"address":"10.0.0.2"}]})",
      R"({"ips":[{"address":"10.0.0.2/33"}]})",
      R"({"ips":[{"address":"10.0.0.2/24","gateway":"x"}]})",
      R"({"ips":[{"address":"10.0.0.2/24","interface":0}]})",
      R"({"ips":[{"address":"10.0.0.2/24","interface":-1}]})",
      R"({"routes":[{"dst":"x"}]})",
      R"({"dns":{"nameservers":[1]}})",
  };
  for (const std::string& text : bad) {
    EXPECT_EQ(Outcome(Read(text)), "InvalidArgument") << text;
  }
}

TEST(CniPluginResultTest, TheInterfaceIsTheFirstInASandboxWithAnAddress) {
  EXPECT_EQ(StatusText(R"({"interfaces":
      [{"name":"z","sandbox":"s"},{"name":"b","sandbox":"s"},{"name":"a"},
       {"name":"aa","sandbox":"s"}],
      "ips":[{"address":"10.0.0.3/24","interface":0},
             {"address":"fd00::4/64","interface":1},
             {"address":"10.0.0.4/24","interface":1},
             {"address":"10.0.0.5/24","interface":1},
             {"address":"10.0.0.1/24","interface":2}]})"),
            "b 10.0.0.4 fd00::4");
}

TEST(CniPluginResultTest, WithoutASandboxItIsTheFirstWithAnAddress) {
  EXPECT_EQ(StatusText(R"({"interfaces":[{"name":"b"},{"name":"a"},
      {"name":"c","sandbox":"s"}],
      "ips":[{"address":"10.0.0.3/24","interface":0},
             {"address":"10.0.0.4/24","interface":1}]})"),
            "a 10.0.0.4 ");
}

TEST(CniPluginResultTest, AnIpv6AddressAloneIsTheAddress) {
  EXPECT_EQ(StatusText(R"({"interfaces":[{"name":"a","sandbox":"s"}],
      "ips":[{"address":"fd00::4/64","interface":0}]})"),
            "a fd00::4 fd00::4");
}

TEST(CniPluginResultTest, AnAddressOfNoInterfaceIsThatOfTheRequest) {
  EXPECT_EQ(StatusText(R"({"ips":[{"address":"10.0.0.4/24"}]})"),
            "eth0 10.0.0.4 ");
  EXPECT_EQ(StatusText(R"({"interfaces":[{"name":"a","sandbox":"s"},
      {"name":"eth0","sandbox":"s"}],"ips":[{"address":"10.0.0.4/24"}]})"),
            "eth0 10.0.0.4 ");
}

TEST(CniPluginResultTest, SomethingHasToHaveAnAddress) {
  EXPECT_EQ(StatusText("{}"), "FailedPrecondition");
  EXPECT_EQ(StatusText(R"({"interfaces":[{"name":"a","sandbox":"s"}]})"),
            "FailedPrecondition");
}

}  // namespace
}  // namespace mountd::cni
