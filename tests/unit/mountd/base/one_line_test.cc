// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/one_line.h"

#include <gtest/gtest.h>

#include <string>

namespace mountd {
namespace {

TEST(OneLine, LeavesWhatIsText) {
  for (const char* text :
       {"", "plain", "volume pvc-1 (ö, 漢字, \xF0\x9F\x92\xBE) <0> \"a\\b\""}) {
    EXPECT_EQ(OnOneLine(text), text);
  }
}

TEST(OneLine, NothingEndsTheLineOrMovesTheCursor) {
  EXPECT_EQ(OnOneLine("a\n<0>mountd: ok\r\x1b[2J\x7f\tb"),
            "a?<0>mountd: ok??[2J??b");
  EXPECT_EQ(OnOneLine(std::string("a\0b", 3)), "a?b");
  // NEL and CSI are C1 controls. Then come both separators and an override.
  EXPECT_EQ(OnOneLine("a\xC2\x85 b\xC2\x9B c\xE2\x80\xA8 d\xE2\x80\xA9 "
                      "e\xE2\x80\xAE f\xE2\x81\xA6 g"),
            "a? b? c? d? e? f? g");
  // U+00A0 is the first character after the C1 controls.
  EXPECT_EQ(OnOneLine("\xC2\xA0"), "\xC2\xA0");
}

TEST(OneLine, BytesThatAreNoTextAreNone) {
  // The bytes are a lone C1 control, and characters that are cut off, overlong,
  // a surrogate, and beyond U+10FFFF.
  EXPECT_EQ(OnOneLine("a\x9B"), "a?");
  EXPECT_EQ(OnOneLine("a\xE2\x80"), "a??");
  EXPECT_EQ(OnOneLine("\xC0\x8A"), "??");
  EXPECT_EQ(OnOneLine("\xE0\x80\x8A"), "???");
  EXPECT_EQ(OnOneLine("\xED\xA0\x80"), "???");
  EXPECT_EQ(OnOneLine("\xF4\x90\x80\x80"), "????");
  EXPECT_EQ(OnOneLine("\xFF"), "?");
}

TEST(OneLine, IsShorterThanWhatTheJournalSplits) {
  EXPECT_EQ(OnOneLine(std::string(100'000, 'x')),
            std::string(kMaxLogLine, 'x'));
  // The limit cuts no character in two.
  const std::string line = OnOneLine("x" + std::string(8190, 'y') + "ö");
  EXPECT_EQ(line.size(), kMaxLogLine - 1);
}

}  // namespace
}  // namespace mountd
