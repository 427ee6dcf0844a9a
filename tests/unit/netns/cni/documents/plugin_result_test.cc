// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/documents/plugin_result.h"

#include <gtest/gtest.h>

#include <utility>

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

TEST(CniPluginResultTest, AllMembersAreThereWhateverThePluginSaid) {
  const auto nothing = Json::parse(R"({"cniVersion": "1.0.0", "interfaces": [],
    "ips": [], "routes": [], "dns": {"nameservers": [], "domain": "",
    "search": [], "options": []}})");
  for (const char* text :
       {"{}", R"({"cniVersion":null,"interfaces":null,"ips":null,"routes":null,
                  "dns":null})",
        R"({"dns":{"nameservers":null,"domain":null}})"}) {
    const auto result = Read(text);
    ASSERT_EQ(MessageOf(result), "Ok");
    EXPECT_EQ(ToJson(*result), nothing) << text;
  }
  const auto least = Read(R"({"interfaces":[{"name":"a","mtu":0,"x":1}],
    "ips":[{"address":"10.0.0.2/24","x":1}],
    "routes":[{"dst":"::/0","mtu":1}],"x":1})");
  ASSERT_EQ(MessageOf(least), "Ok");
  const Json json = ToJson(*least);
  EXPECT_EQ(json["interfaces"],
            Json::parse(R"([{"name":"a","mac":"","sandbox":""}])"));
  EXPECT_EQ(json["ips"],
            Json::parse(R"([{"address":"10.0.0.2/24","gateway":""}])"));
  EXPECT_EQ(json["routes"], Json::parse(R"([{"dst":"::/0","gw":""}])"));
}

// Each member, with one valid value.
const std::vector<std::pair<std::string, Json>>& Members() {
  static const std::vector<std::pair<std::string, Json>> members = {
      {"/cniVersion", "1.0.0"},
      {"/interfaces", Json::array()},
      {"/interfaces/0", {{"name", "a"}}},
      {"/interfaces/0/name", "a"},
      {"/interfaces/0/mac", "02:00:00:00:00:01"},
      {"/interfaces/0/sandbox", "/run/netns/web"},
      {"/interfaces/0/mtu", 1500U},
      {"/ips", Json::array()},
      {"/ips/0", {{"address", "10.0.0.2/24"}}},
      {"/ips/0/address", "10.0.0.2/24"},
      {"/ips/0/gateway", "10.0.0.1"},
      {"/ips/0/interface", 0U},
      {"/routes", Json::array()},
      {"/routes/0", {{"dst", "10.0.0.0/8"}}},
      {"/routes/0/dst", "10.0.0.0/8"},
      {"/routes/0/gw", "10.0.0.1"},
      {"/dns", Json::object()},
      {"/dns/nameservers", Json::array()},
      {"/dns/nameservers/0", "10.0.0.1"},
      {"/dns/domain", "a"},
      {"/dns/search", Json::array()},
      {"/dns/search/0", "a"},
      {"/dns/options", Json::array()},
      {"/dns/options/0", "a"},
  };
  return members;
}

// Returns null if there is no such member.
Json GoodOne(const std::string& member) {
  for (const auto& [name, good] : Members()) {
    if (name == member) {
      return good;
    }
  }
  return nullptr;
}

std::string OutcomeWith(const std::string& member, const Json& value) {
  Json result = Json::parse(R"({"interfaces": [{"name": "a"}],
    "ips": [{"address": "10.0.0.2/24"}], "routes": [{"dst": "10.0.0.0/8"}]})");
  result[Json::json_pointer(member)] = value;
  return Outcome(ReadPluginResult(result, "1.0.0"));
}

TEST(CniPluginResultTest, AMemberIsOfItsType) {
  const std::vector<Json> values = {true,          -1,
                                    1.5,           "a",
                                    Json::array(), Json::object(),
                                    {{"a", 1}},    Json::array({1})};
  for (const auto& [member, good] : Members()) {
    EXPECT_EQ(OutcomeWith(member, good), "Ok") << member;
    for (const Json& value : values) {
      if (value.type() != good.type() && !value.is_null()) {
        EXPECT_EQ(OutcomeWith(member, value), "InvalidArgument")
            << member << " " << value;
      }
    }
  }
}

TEST(CniPluginResultTest, ATextIsPlainAndBounded) {
  for (const auto& [member, good] : Members()) {
    if (!good.is_string()) {
      continue;
    }
    for (const std::string& text :
         {std::string(256, 'a'), std::string("a\n"), std::string("a\x1b[m"),
          std::string("a\0b", 3), std::string("a\x7f"),
          std::string("a\xc2\x9bm"), std::string("\xff")}) {
      EXPECT_EQ(OutcomeWith(member, text), "InvalidArgument")
          << member << " " << text.size();
    }
  }
  for (const char* member :
       {"/interfaces/0/name", "/interfaces/0/mac", "/interfaces/0/sandbox",
        "/dns/nameservers/0", "/dns/domain", "/dns/search/0",
        "/dns/options/0"}) {
    EXPECT_EQ(OutcomeWith(member, std::string(255, 'a')), "Ok") << member;
  }
  EXPECT_EQ(OutcomeWith("/interfaces/0/name", ""), "InvalidArgument");
}

TEST(CniPluginResultTest, ListsAreBounded) {
  for (const auto& [member, most] :
       std::vector<std::pair<std::string, std::size_t>>{
           {"/interfaces", 64},
           {"/ips", 64},
           {"/routes", 256},
           {"/dns/nameservers", 32},
           {"/dns/search", 32},
           {"/dns/options", 32}}) {
    const Json item = GoodOne(member + "/0");
    ASSERT_FALSE(item.is_null()) << member;
    EXPECT_EQ(OutcomeWith(member, Json::array_t(most, item)), "Ok");
    for (const std::size_t count : {most + 1, std::size_t{10'000}}) {
      EXPECT_EQ(OutcomeWith(member, Json::array_t(count, item)),
                "InvalidArgument")
          << member;
    }
  }
}

TEST(CniPluginResultTest, NumbersAreBounded) {
  EXPECT_EQ(OutcomeWith("/interfaces/0/mtu", 4294967295U), "Ok");
  EXPECT_EQ(OutcomeWith("/interfaces/0/mtu", 4294967296U), "InvalidArgument");
  EXPECT_EQ(OutcomeWith("/ips/0/interface", 1), "InvalidArgument");
  EXPECT_EQ(OutcomeWith("/ips/0/interface", ~std::uint64_t{0}),
            "InvalidArgument");
}

TEST(CniPluginResultTest, AnAddressIsOfOneOfTheFamilies) {
  for (const char* text : {"0.0.0.0/0", "10.0.0.2/32", "::/0", "fd00::2/128",
                           "::ffff:10.0.0.2/128"}) {
    EXPECT_EQ(OutcomeWith("/ips/0/address", text), "Ok") << text;
    EXPECT_EQ(OutcomeWith("/routes/0/dst", text), "Ok") << text;
  }
  for (const char* text :
       {"", "10.0.0.2", "10.0.0.2/", "10.0.0.2/33", "fd00::2/129",
        "10.0.0.2/-1", "10.0.0.2/+1", "10.0.0.2/24/24", "10.0.0.2/24 ",
        "10.0.2/24", "10.0.0.256/24", "010.0.0.2/24", "0x0a.0.0.2/24",
        "167772162/24", "fe80::1%eth0/64", "[fd00::2]/64", "fd00:::2/64",
        "02:00:00:00:00:01/24", "localhost/24"}) {
    EXPECT_EQ(OutcomeWith("/ips/0/address", text), "InvalidArgument") << text;
    EXPECT_EQ(OutcomeWith("/routes/0/dst", text), "InvalidArgument") << text;
  }
  for (const char* text :
       {"10.0.0.1/24", "fe80::1%eth0", "[fd00::1]", "10.0.0.1:80", "gateway"}) {
    EXPECT_EQ(OutcomeWith("/ips/0/gateway", text), "InvalidArgument") << text;
    EXPECT_EQ(OutcomeWith("/routes/0/gw", text), "InvalidArgument") << text;
  }
}

// Linux has routes whose next hop is of the other family (RFC 5549).
TEST(CniPluginResultTest, AGatewayMayBeOfTheOtherFamily) {
  EXPECT_EQ(OutcomeWith("/ips/0/gateway", "fd00::1"), "Ok");
  EXPECT_EQ(OutcomeWith("/routes/0/gw", "fd00::1"), "Ok");
}

TEST(CniPluginResultTest, AVersionInAnAddressIsNotBelieved) {
  EXPECT_EQ(StatusText(R"({"ips":[{"version":"4","address":"fd00::4/64"},
                                  {"version":"6","address":"10.0.0.4/24"}]})"),
            "eth0 10.0.0.4 fd00::4");
}

TEST(CniPluginResultTest, TheLargestAnswerIsBounded) {
  // The quotes double in JSON, and no accepted character gets longer than that.
  const std::string text(255, '"');
  const std::string address = "1111:2222:3333:4444:5555:6666:7777:8888";
  Json result = {{"dns", {{"domain", text}}}};
  for (const char* list : {"nameservers", "search", "options"}) {
    result["dns"][list] = Json::array_t(32, text);
  }
  result["interfaces"] = Json::array_t(
      64,
      {{"name", text}, {"mac", text}, {"sandbox", text}, {"mtu", 4294967295U}});
  result["ips"] = Json::array_t(64, {{"address", address + "/128"},
                                     {"gateway", address},
                                     {"interface", 63U}});
  result["routes"] =
      Json::array_t(256, {{"dst", address + "/128"}, {"gw", address}});
  const auto read = ReadPluginResult(result, "1.0.0");
  ASSERT_EQ(MessageOf(read), "Ok");
  // An ADD adds an interface's name, two addresses and words.
  EXPECT_LT(ToText(ToJson(*read)).size() + 2048, kMaxAddAnswerBytes);
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
