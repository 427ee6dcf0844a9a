// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/documents/request.h"

#include <gtest/gtest.h>

#include "tests/support/outcome.h"

namespace mountd::cni {
namespace {

TEST(CniRequestTest, WhatIsAskedForIsInThePluginsWords) {
  const auto request = ParseRequest(R"({
    "network": "net", "container_id": "web", "ifname": "eth0",
    "args": {"A": "1", "B": ""},
    "port_mappings": [{"hostPort": 8080, "containerPort": 80,
                       "protocol": "tcp", "hostIP": "FD00:0::1"}],
    "dns": {"servers": ["10.0.0.1"], "searches": ["a.b"]},
    "bandwidth": {"ingressRate": 1000},
    "ips": ["10.0.0.5/24", "fd00::5"], "mac": "02:00:00:00:00:01"})");
  ASSERT_EQ(MessageOf(request), "Ok");
  EXPECT_EQ(request->attachment.ToText(), "web/eth0");
  EXPECT_EQ(request->args, "IgnoreUnknown=1;A=1;B=");
  EXPECT_EQ(request->capabilities, Json::parse(R"({
    "portMappings": [{"hostPort": 8080, "containerPort": 80,
                      "protocol": "tcp", "hostIP": "fd00::1"}],
    "dns": {"servers": ["10.0.0.1"], "searches": ["a.b"]},
    "bandwidth": {"ingressRate": 1000, "ingressBurst": 0,
                  "egressRate": 0, "egressBurst": 0},
    "ips": ["10.0.0.5/24", "fd00::5"], "mac": "02:00:00:00:00:01"})"));
}

TEST(CniRequestTest, WhatIsNotAskedForIsNotThere) {
  const auto request = ParseRequest(
      R"({"port_mappings": [], "dns": {}, "ips": [], "mac": "", "args": {}})");
  ASSERT_EQ(MessageOf(request), "Ok");
  EXPECT_TRUE(request->capabilities.empty());
  EXPECT_EQ(request->args, "IgnoreUnknown=1");
  EXPECT_EQ(Outcome(CheckAttachment(*request)), "InvalidArgument");
}

TEST(CniRequestTest, NothingElseIsTaken) {
  for (
      const char* text : {
          "",
          "[]",
          "{",
          "null",
          "{\"a\":1}",
          "{\"network\":1}",
          R"({"network":"a/b"})",
          R"({"container_id":"-a"})",
          R"({"ifname":"a b"})",
          R"({"args":{"K":1}})",
          R"({"args":["K"]})",
          R"({"args":{"IgnoreUnknown":"0"}})",
          R"({"port_mappings":[{}]})",
          R"({"port_mappings":[{"hostPort":80,"containerPort":80}]})",
          R"({"port_mappings":[{"hostPort":65536,"containerPort":80,"protocol":"tcp"}]})",
          R"({"port_mappings":[{"hostPort":-1,"containerPort":80,"protocol":"tcp"}]})",
          R"({"port_mappings":[{"hostPort":1,"containerPort":80,"protocol":"-j"}]})",
          R"({"port_mappings":[{"hostPort":1,"containerPort":80,"protocol":"tcp","hostIP":"--x"}]})",
          R"({"port_mappings":[{"hostPort":1,"containerPort":80,"protocol":"tcp","x":1}]})",
          R"({"dns":{"servers":["ns.example"]}})",
          R"({"dns":{"searches":["a\nb"]}})",
          R"({"dns":{"domain":"x"}})",
          R"({"bandwidth":{"ingressRate":-1}})",
          R"({"bandwidth":{"ingressRate":1.5}})",
          R"({"ips":["10.0.0.1/33"]})",
          R"({"ips":["a"]})",
          R"({"mac":"a"})",
          R"({"valid":[{}]})",
          R"({"valid":[{"container_id":"a","ifname":"b","x":1}]})",
          "{\"network\":\"\xff\"}",
      }) {
    EXPECT_EQ(Outcome(ParseRequest(text)), "InvalidArgument") << text;
  }
}

TEST(CniRequestTest, DepthAndSizeAreBounded) {
  const std::string deep =
      "{\"args\":" + std::string(50, '[') + std::string(50, ']') + "}";
  EXPECT_EQ(Outcome(ParseRequest(deep)), "InvalidArgument");
  const std::string large =
      "{\"network\":\"" + std::string(300000, 'a') + "\"}";
  EXPECT_EQ(Outcome(ParseRequest(large)), "InvalidArgument");
  std::string args = R"({"args":{)";
  for (int i = 0; i < 10; ++i) {
    args +=
        "\"K" + std::to_string(i) + "\":\"" + std::string(4000, 'a') + "\",";
  }
  EXPECT_EQ(Outcome(ParseRequest(args + R"("K":""}})")), "InvalidArgument");
  std::string many = "{\"ips\":[";
  for (int i = 0; i < 40000; ++i) {
    many += "1,";
  }
  EXPECT_EQ(Outcome(ParseRequest(many + "1]}")), "InvalidArgument");
}

}  // namespace
}  // namespace mountd::cni
