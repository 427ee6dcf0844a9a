// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/dict/value.h"

#include <gtest/gtest.h>
#include <sdbus-c++/sdbus-c++.h>

#include <map>

namespace mountd::dbus {
namespace {

using Variants = std::map<std::string, sdbus::Variant>;
using Pair = sdbus::Struct<std::uint32_t, std::string>;

const Value::Bytes kBytes = {0, 1, 0xff};
const Value::Ports kPorts = {{"http", "", 8080, 80, 1, "tcp"},
                             {"dns", "127.0.0.1", 53, 5353, 2, "tcp+udp"}};
const Value::Files kFiles = {{kBytes, "/etc/hosts"}};

Dict AllKinds() {
  return {{"bool", Value(true)},
          {"number", Value(std::uint32_t{7})},
          {"id", Value(UINT64_MAX)},
          {"text", Value(std::string("a\xC3\xA4"))},
          {"bytes", Value(kBytes)},
          {"ports", Value(kPorts)},
          {"files", Value(kFiles)},
          {"none", Value(Value::Files{})},
          {"signed", Value(std::int64_t{-1})},
          {"struct", Value(Pair(1, "x"))},
          {"dict", Value(Dict{{"inner", Value(std::string("y"))}})}};
}

// Returns `from` after it was sent as `From` and read as `To`.
template <typename To, typename From>
To Sent(const From& from) {
  auto message = sdbus::createPlainMessage();
  message << from;
  message.seal();
  To to;
  message >> to;
  return to;
}

TEST(ValueTest, ItIsReadAsItWasWritten) {
  const auto read = Sent<Dict>(AllKinds());
  ASSERT_EQ(read.size(), AllKinds().size());
  EXPECT_TRUE(read.at("bool").get<bool>());
  EXPECT_EQ(read.at("number").get<std::uint32_t>(), 7U);
  EXPECT_EQ(read.at("id").get<std::uint64_t>(), UINT64_MAX);
  EXPECT_EQ(read.at("text").get<std::string>(), "a\xC3\xA4");
  EXPECT_EQ(read.at("bytes").get<Value::Bytes>(), kBytes);
  EXPECT_EQ(read.at("ports").get<Value::Ports>(), kPorts);
  EXPECT_EQ(read.at("files").get<Value::Files>(), kFiles);
  EXPECT_TRUE(read.at("none").get<Value::Files>().empty());
  EXPECT_EQ(read.at("signed").get<std::int64_t>(), -1);
  EXPECT_EQ(read.at("struct").get<Pair>(), Pair(1, "x"));
  EXPECT_EQ(read.at("dict").get<Dict>().at("inner").get<std::string>(), "y");
}

TEST(ValueTest, ItIsOnTheWireWhatAVariantIs) {
  const auto variants = Sent<Variants>(AllKinds());
  for (const auto& [key, value] : AllKinds()) {
    EXPECT_EQ(variants.at(key).peekValueType(), value.peekValueType()) << key;
  }
  EXPECT_EQ(variants.at("text").get<std::string>(), "a\xC3\xA4");
  const auto values = Sent<Dict>(variants);
  EXPECT_EQ(values.at("bytes").get<Value::Bytes>(), kBytes);
  EXPECT_EQ(values.at("ports").get<Value::Ports>(), kPorts);
  EXPECT_EQ(values.at("struct").get<Pair>(), Pair(1, "x"));
}

TEST(ValueTest, ItIsOfOneType) {
  const Dict all = AllKinds();
  EXPECT_TRUE(all.at("number").containsValueOfType<std::uint32_t>());
  EXPECT_FALSE(all.at("number").containsValueOfType<std::uint64_t>());
  EXPECT_FALSE(all.at("number").containsValueOfType<std::int64_t>());
  EXPECT_FALSE(all.at("signed").containsValueOfType<std::uint64_t>());
  EXPECT_THROW(all.at("number").get<bool>(), sdbus::Error);
  EXPECT_THROW(all.at("number").get<Pair>(), sdbus::Error);
  EXPECT_THROW(all.at("struct").get<std::string>(), sdbus::Error);
}

TEST(ValueTest, ItSaysItsType) {
  const Dict all = AllKinds();
  EXPECT_EQ(all.at("bytes").peekValueType(), "ay");
  EXPECT_EQ(all.at("struct").peekValueType(), "(us)");
  EXPECT_EQ(all.at("dict").peekValueType(), "a{sv}");
  for (const char* plain : {"b", "u", "t", "s", "ay", "a(ssqqqs)", "a(ays)"}) {
    EXPECT_TRUE(Value::IsPlainSignature(plain)) << plain;
  }
  for (const char* other : {"", "a", "as", "x", "v", "bb", "(us)", "a(us)"}) {
    EXPECT_FALSE(Value::IsPlainSignature(other)) << other;
  }
}

// A caller may send such values.
TEST(ValueTest, OneOfAnotherTypeIsPassedOver) {
  auto message = sdbus::createPlainMessage();
  message << Variants{{"a", sdbus::Variant(1.5)},
                      {"b", sdbus::Variant(Value(true))},
                      {"c", sdbus::Variant(std::vector<std::string>{})},
                      {"d", sdbus::Variant(std::string("end"))}};
  message.seal();
  Dict read;
  message >> read;
  EXPECT_EQ(read.at("a").get<double>(), 1.5);
  EXPECT_EQ(read.at("b").peekValueType(), "v");
  EXPECT_TRUE(read.at("c").containsValueOfType<std::vector<std::string>>());
  EXPECT_EQ(read.at("d").get<std::string>(), "end");
}

}  // namespace
}  // namespace mountd::dbus
