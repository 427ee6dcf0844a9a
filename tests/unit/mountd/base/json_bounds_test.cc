// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/json_bounds.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace mountd {
namespace {

using Json = nlohmann::json;
using Fractions = JsonBounds::Fractions;

bool Takes(const JsonBounds& bounds, const std::string& text) {
  return IsWithin<Json>(text, Json::input_format_t::json, bounds);
}

TEST(JsonBoundsTest, DepthIsThatOfObjectsAndArrays) {
  const JsonBounds bounds{2, 100};
  EXPECT_FALSE(Takes(bounds, R"({"a":[1,{}]})"));
  EXPECT_TRUE(Takes(bounds, R"({"a":[1],"b":[],"c":{}})"));
  EXPECT_FALSE(Takes(bounds, std::string(100'000, '[')));
}

TEST(JsonBoundsTest, KeysAreValuesToo) {
  EXPECT_TRUE(Takes({1, 5}, R"({"a":1,"b":null})"));
  EXPECT_FALSE(Takes({1, 5}, R"({"a":1,"b":null,"c":true})"));
  EXPECT_TRUE(Takes({1, 5}, R"([1,-1,"a",true])"));
  EXPECT_FALSE(Takes({1, 5}, "[1,1,1,1,1]"));
}

TEST(JsonBoundsTest, FractionsAreAMatterOfThePolicy) {
  for (const char* text : {"[1.5]", "[1e3]", "[18446744073709551616]"}) {
    EXPECT_FALSE(Takes({1, 2, Fractions::kRefused}, text)) << text;
    EXPECT_TRUE(Takes({1, 2, Fractions::kTaken}, text)) << text;
  }
  EXPECT_FALSE(Takes({1, 2, Fractions::kTaken}, "[1.5,1.5]"));
}

TEST(JsonBoundsTest, WhatIsNoJsonIsNotWithin) {
  for (const char* text : {"", "{", "[1,]", "{1:1}", "[1] 1", "\"\xff\""}) {
    EXPECT_FALSE(Takes({10, 100, Fractions::kTaken}, text)) << text;
  }
}

TEST(JsonBoundsTest, CborIsCountedTheSameWay) {
  const Json value = {{"a", Json::binary({1, 2, 3})}, {"b", {1, 2}}};
  const auto bytes = Json::to_cbor(value);
  EXPECT_TRUE(IsWithin<Json>(bytes, Json::input_format_t::cbor, {2, 7}));
  EXPECT_FALSE(IsWithin<Json>(bytes, Json::input_format_t::cbor, {2, 6}));
  EXPECT_FALSE(IsWithin<Json>(bytes, Json::input_format_t::cbor, {1, 7}));
}

}  // namespace
}  // namespace mountd
