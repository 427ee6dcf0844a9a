// SPDX-License-Identifier: LGPL-2.1-or-later
//
// tests/real compares the same names with Go's own decoder.
#include "netns/cni/documents/go_json.h"

#include <gtest/gtest.h>

#include <string>

namespace mountd::cni {
namespace {

constexpr TextBounds kBounds{1U << 20U, 16, 1U << 17U};

Json Parsed(const std::string& text) {
  const Result<Json> parsed = ParseAsGo(text, kBounds, "text");
  return parsed ? *parsed : Json(parsed.error().Message());
}

TEST(GoJson, NamesAreFolded) {
  EXPECT_EQ(FoldedName("hostPort"), FoldedName("HOSTPORT"));
  // Go treats U+017F and U+212A as ASCII letters.
  EXPECT_EQ(FoldedName("ho\u017ftPort"), FoldedName("hostPort"));
  EXPECT_EQ(FoldedName("networ\u212a"), FoldedName("network"));
  EXPECT_NE(FoldedName("host_port"), FoldedName("hostport"));
  EXPECT_NE(FoldedName("host\u00e9"), FoldedName("hoste"));
  EXPECT_EQ(FoldedName(""), "");
  EXPECT_EQ(FoldedName("\xc5"), "\xc5");
  EXPECT_EQ(FoldedName("[{@`"), "[{@`");
}

TEST(GoJson, AMemberIsFoundByItsFoldedName) {
  const Json object = {{"HostPort", 1}, {"x", nullptr}};
  ASSERT_NE(FindMember(object, "hostPort"), nullptr);
  EXPECT_EQ(*FindMember(object, "hostPort"), 1);
  EXPECT_EQ(FindExact(object, "hostPort"), nullptr);
  EXPECT_TRUE(IsAbsent(object, "X"));
  EXPECT_EQ(FindMember(5, "x"), nullptr);
}

TEST(GoJson, OfOneNameTheLastCounts) {
  EXPECT_EQ(Parsed(R"({"hostPort":1,"HostPort":2})"), Json({{"hostPort", 2}}));
  EXPECT_EQ(Parsed(R"({"HostPort":2,"hostPort":1})"), Json({{"HostPort", 1}}));
  EXPECT_EQ(Parsed(R"({"a":1,"A":2,"a":3})"), Json({{"a", 3}}));
  EXPECT_EQ(Parsed(R"({"a":{"b":1,"B":"x"}})"), Json({{"a", {{"b", "x"}}}}));
}

TEST(GoJson, NullChangesNothingButAnArray) {
  EXPECT_EQ(Parsed(R"({"a":1,"A":null})"), Json({{"a", 1}}));
  EXPECT_EQ(Parsed(R"({"a":{"b":1},"A":null})"), Json({{"a", {{"b", 1}}}}));
  EXPECT_EQ(Parsed(R"({"a":[1],"A":null})"), Json({{"a", Json::array()}}));
  EXPECT_EQ(Parsed(R"({"a":null,"A":1})"), Json({{"a", 1}}));
}

TEST(GoJson, ObjectsAreMergedAndArraysByTheirElements) {
  EXPECT_EQ(Parsed(R"({"dns":{"x":1,"y":1},"DNS":{"Y":2,"z":3}})"),
            Json({{"dns", {{"x", 1}, {"y", 2}, {"z", 3}}}}));
  EXPECT_EQ(Parsed(R"({"a":[{"x":1},{"x":2}],"A":[{"y":3}]})"),
            Json({{"a", {{{"x", 1}, {"y", 3}}}}}));
  EXPECT_EQ(Parsed(R"({"a":[1],"A":[2,3]})"), Json({{"a", {2, 3}}}));
  EXPECT_EQ(Parsed(R"({"a":[1],"A":{"b":1}})"), Json({{"a", {{"b", 1}}}}));
}

TEST(GoJson, WhatIsNoObjectIsRefused) {
  for (const char* text : {"", "[]", "5", "null", "{", R"({"a":})", "{}x"}) {
    EXPECT_TRUE(Parsed(text).is_string()) << text;
  }
  EXPECT_EQ(Parsed("{}"), Json::object());
  EXPECT_EQ(Parsed(R"({"a":[true,-1,1.5,"x",[],{}]})"),
            Json({{"a", {true, -1, 1.5, "x", Json::array(), Json::object()}}}));
}

// Comparing each of many different names with every other one would take too
// long.
TEST(GoJson, ManyMembersTakeNoTime) {
  std::string text = "{";
  for (int i = 0; i < 60'000; ++i) {
    text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":1";
  }
  EXPECT_EQ(Parsed(text + "}").size(), 60'000U);
}

}  // namespace
}  // namespace mountd::cni
