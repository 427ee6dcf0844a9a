// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/trace_parent.h"

#include <gtest/gtest.h>

#include <string>

namespace mountd {
namespace {

constexpr char kValid[] =
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(TraceParentTest, AValidOneIsReadAndWrittenTheSame) {
  const auto parent = ParseTraceParent(kValid);
  ASSERT_TRUE(parent);
  EXPECT_EQ(parent->trace_id[0], 0x0a);
  EXPECT_EQ(parent->trace_id[15], 0x9c);
  EXPECT_EQ(parent->span_id[0], 0xb7);
  EXPECT_EQ(parent->span_id[7], 0x31);
  EXPECT_TRUE(parent->sampled());
  EXPECT_EQ(ToText(*parent), kValid);
}

// A parser that takes whatever strtoull takes fails here.
TEST(TraceParentTest, WhatIsNoneIsRefused) {
  const std::string valid = kValid;
  const std::string cases[] = {
      "",
      "00",
      valid.substr(0, 54),
      valid + "-",
      valid + "-00",
      valid + " ",
      " " + valid,
      valid + "\n",
      "ff" + valid.substr(2),
      "0x" + valid.substr(2),
      "-1" + valid.substr(2),
      "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
      "00-0af7651916cd43dd8448eb211c80319c-B7AD6B7169203331-01",
      "00-00000000000000000000000000000000-b7ad6b7169203331-01",
      "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
      "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333 -01",
      "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
      "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331_01",
      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
      std::string(55, '\0'),
      std::string(55, '-'),
      "cc" + valid.substr(2) + ".what",
      "cc" + valid.substr(2) + "-" + std::string(73, 'x')};
  for (const std::string& text : cases) {
    EXPECT_FALSE(ParseTraceParent(text)) << text;
  }
}

// Section 3.2.4: a later version is read as far as this version knows it.
TEST(TraceParentTest, ALaterVersionIsReadAndWrittenAsThisVersion) {
  const std::string rest = std::string(kValid).substr(2);
  for (const std::string& text :
       {"01" + rest, "cc" + rest, "fe" + rest + "-what-the-future-will-be",
        "cc" + rest + "-" + std::string(72, 'x')}) {
    const auto parent = ParseTraceParent(text);
    ASSERT_TRUE(parent) << text;
    EXPECT_EQ(ToText(*parent), kValid);
  }
}

TEST(TraceParentTest, UnknownFlagsAreDropped) {
  const std::string start = std::string(kValid).substr(0, 53);
  EXPECT_EQ(ToText(*ParseTraceParent(start + "ff")), start + "03");
  EXPECT_EQ(ToText(*ParseTraceParent(start + "fe")), start + "02");
  EXPECT_FALSE(ParseTraceParent(start + "fe")->sampled());
  EXPECT_FALSE(ParseTraceParent(start + "00")->sampled());
}

TEST(TraceParentTest, ASpanIdIsNew) {
  const SpanId one = NewSpanId();
  EXPECT_NE(one, SpanId());
  EXPECT_NE(one, NewSpanId());
}

TEST(TraceParentTest, ARequestIdIsOneShortPrintableWord) {
  for (const std::string& text :
       {std::string("x"), std::string("4f1c-9/a=b\"~!"),
        std::string(kMaxRequestId, 'x')}) {
    EXPECT_TRUE(IsRequestId(text)) << text;
  }
  for (const std::string& text :
       {std::string(), std::string(" "), std::string("a b"),
        std::string("a\nb"), std::string("a\x1b[2J"), std::string("a\x7f"),
        std::string("\xc3\xa4"), std::string("a\0b", 3),
        std::string(kMaxRequestId + 1, 'x')}) {
    EXPECT_FALSE(IsRequestId(text)) << text;
  }
}

}  // namespace
}  // namespace mountd
