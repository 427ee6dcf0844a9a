// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/mountd-csi/scrub.h"

#include <gtest/gtest.h>

#include "mountd/base/names.h"

namespace mountd::csi {
namespace {

TEST(Scrub, ReplacesEveryOccurrence) {
  EXPECT_EQ("a [REDACTED] b [REDACTED]",
            Scrub("a hunter2 b hunter2", {"hunter2"}));
}

TEST(Scrub, LeavesNoPieceOfOverlappingSecrets) {
  EXPECT_EQ("x[REDACTED]y", Scrub("xabcdy", {"abc", "bcd"}));
  EXPECT_EQ("[REDACTED]", Scrub("aaaaa", {"aa"}));
  EXPECT_EQ("[REDACTED]", Scrub("secret", {"secret", "cre"}));
}

TEST(Scrub, DoesNotLookIntoItsOwnReplacement) {
  EXPECT_EQ("[REDACTED]", Scrub("pass", {"pass", "RED"}));
}

TEST(Scrub, EmptySecretsHideNothing) { EXPECT_EQ("text", Scrub("text", {""})); }

TEST(Scrub, AnswersValidTextOfAtMostAKibibyte) {
  EXPECT_EQ("a?b c ", Scrub("a\xff"
                            "b\nc\x01",
                            {}));
  const std::string long_text = Scrub(std::string(1023, 'x') + "\xc3\xa4", {});
  EXPECT_EQ(1023U, long_text.size());
  EXPECT_TRUE(IsValidUtf8(long_text));
}

TEST(Scrub, ASecretAtTheCutIsHiddenBeforeTheCut) {
  const std::string text = std::string(1020, 'x') + "hunter2";
  EXPECT_EQ(std::string::npos, Scrub(text, {"hunter2"}).find("hun"));
}

TEST(HiddenTexts, AreSecretsValuesAndFlagsButNotPlainAttributes) {
  const Secrets secrets = *DecodeSecrets(*EncodeSecrets({{"k", "v1"}}));
  const std::vector<std::string> flags{"ro", "password=x=y", "vers4"};
  const std::vector<std::string_view> expected{"v1", "password=x=y", "x=y",
                                               "vers4"};
  EXPECT_EQ(expected, HiddenTexts(secrets, flags));
}

}  // namespace
}  // namespace mountd::csi
