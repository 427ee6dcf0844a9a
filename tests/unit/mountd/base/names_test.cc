// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/names.h"

#include <gtest/gtest.h>

#include <string>

namespace mountd {
namespace {

using namespace std::string_literals;  // for NUL bytes in literals

TEST(NameTest, AcceptsWhatAgentsUse) {
  for (const char* name :
       {"web", "web.task[0]", "5f1c932a-7ed0-4b58-9f33-60b4e2710dc6", "a_b",
        "...", ".hidden", "-", "[]"}) {
    EXPECT_TRUE(IsValidName(name)) << name;
  }
}

TEST(NameTest, RefusesWhatIsMoreThanOnePathComponent) {
  for (const char* name : {"", ".", "..", "a/b", "/", "../x", "x/..", "a/"}) {
    EXPECT_FALSE(IsValidName(name)) << name;
  }
}

TEST(NameTest, RefusesBytesThatCouldMisleadALogLineOrAParser) {
  for (const std::string& name :
       {"a b"s, "a\nb"s, "a\0b"s, "\0"s, "a\x7f"s, "caf\xc3\xa9"s, "\xff"s,
        "a:b"s, "a,b"s, "a=b"s, "a\\b"s, "a%b"s, "$x"s, "~"s}) {
    EXPECT_FALSE(IsValidName(name)) << name;
  }
}

TEST(NameTest, LengthEndsAt128Bytes) {
  EXPECT_TRUE(IsValidName(std::string(128, 'a')));
  EXPECT_FALSE(IsValidName(std::string(129, 'a')));
}

TEST(NameTest, ParseNamesTheThingThatWasWrong) {
  const auto bad = Name::Parse("allocation", "../x");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, Code::kInvalidArgument);
  EXPECT_EQ(bad.error().object, "allocation");
  EXPECT_EQ(bad.error().Message().find("../x"), std::string::npos);

  const auto good = Name::Parse("allocation", "web");
  ASSERT_TRUE(good);
  EXPECT_EQ(good->str(), "web");
}

TEST(Utf8Test, AcceptsEverySequenceLength) {
  EXPECT_TRUE(IsValidUtf8(""));
  EXPECT_TRUE(IsValidUtf8("plain"));
  EXPECT_TRUE(IsValidUtf8("\xc3\xa9"));          // U+00E9
  EXPECT_TRUE(IsValidUtf8("\xe2\x82\xac"));      // U+20AC
  EXPECT_TRUE(IsValidUtf8("\xf0\x9f\x92\xbe"));  // U+1F4BE
  EXPECT_TRUE(IsValidUtf8("\xf4\x8f\xbf\xbf"));  // U+10FFFF, the last
  EXPECT_TRUE(IsValidUtf8("\xed\x9f\xbf"));      // the last before surrogates
}

TEST(Utf8Test, RefusesOverlongForms) {
  EXPECT_FALSE(IsValidUtf8("\xc0\xaf"));  // "/" in two bytes
  EXPECT_FALSE(IsValidUtf8("\xc1\xbf"));
  EXPECT_FALSE(IsValidUtf8("\xe0\x80\xaf"));      // "/" in three
  EXPECT_FALSE(IsValidUtf8("\xf0\x80\x80\xaf"));  // "/" in four
}

TEST(Utf8Test, RefusesSurrogatesAndWhatIsBeyondUnicode) {
  EXPECT_FALSE(IsValidUtf8("\xed\xa0\x80"));
  EXPECT_FALSE(IsValidUtf8("\xed\xbf\xbf"));
  EXPECT_FALSE(IsValidUtf8("\xf4\x90\x80\x80"));
  EXPECT_FALSE(IsValidUtf8("\xf5\x80\x80\x80"));
  EXPECT_FALSE(IsValidUtf8("\xff"));
}

TEST(Utf8Test, RefusesWhatIsCutOff) {
  EXPECT_FALSE(IsValidUtf8("\xc3"));
  EXPECT_FALSE(IsValidUtf8("\xe2\x82"));
  EXPECT_FALSE(IsValidUtf8("\xf0\x9f\x92"));
  EXPECT_FALSE(IsValidUtf8("\x80"));
  EXPECT_FALSE(IsValidUtf8("a\xc3z"));
}

TEST(VolumeIdTest, IsOpaqueButBounded) {
  EXPECT_TRUE(CheckVolumeId("../../etc/passwd"));
  EXPECT_TRUE(CheckVolumeId(std::string(1024, 'v')));
  EXPECT_FALSE(CheckVolumeId(""));
  EXPECT_FALSE(CheckVolumeId(std::string(1025, 'v')));
  EXPECT_FALSE(CheckVolumeId("a\0b"s));
  EXPECT_FALSE(CheckVolumeId("\xff"));
}

TEST(VolumeKeyTest, IsTheSameForTheSameVolume) {
  EXPECT_EQ(VolumeKey::Derive("p", "v").str(),
            VolumeKey::Derive("p", "v").str());
  EXPECT_EQ(VolumeKey::Derive("p", "v").str().size(), VolumeKey::kHexDigits);
}

TEST(VolumeKeyTest, KeepsPluginAndVolumeApart) {
  EXPECT_NE(VolumeKey::Derive("ab", "c"), VolumeKey::Derive("a", "bc"));
  EXPECT_NE(VolumeKey::Derive("a", ""), VolumeKey::Derive("", "a"));
  EXPECT_NE(VolumeKey::Derive("a", "b"), VolumeKey::Derive("b", "a"));
  EXPECT_NE(VolumeKey::Derive("p", "v"), VolumeKey::Derive("p", "v\0"s));
}

TEST(VolumeKeyTest, ParsesItsOwnTextOnly) {
  const VolumeKey key = VolumeKey::Derive("p", "v");
  const auto parsed = VolumeKey::Parse(key.str());
  ASSERT_TRUE(parsed);
  EXPECT_EQ(*parsed, key);
  EXPECT_FALSE(VolumeKey::Parse(""));
  EXPECT_FALSE(VolumeKey::Parse(std::string(31, 'a')));
  EXPECT_FALSE(VolumeKey::Parse(std::string(33, 'a')));
  EXPECT_FALSE(VolumeKey::Parse(std::string(32, 'A')));
  EXPECT_FALSE(VolumeKey::Parse(std::string(31, 'a') + "/"));
}

}  // namespace
}  // namespace mountd
