// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/shim/shim.h"

#include <gtest/gtest.h>

namespace mountd::shim {
namespace {

TEST(TaskShim, TellsACodeFromASignal) {
  // The status words of waitpid(2): a code is in the second byte.
  const Message code = ExitedMessage(43 << 8);
  EXPECT_EQ(code.Number(Tag::kExitCode), 43U);
  EXPECT_EQ(code.Number(Tag::kExitSignal), 0U);
  const Message signal = ExitedMessage(9);
  EXPECT_EQ(signal.Number(Tag::kExitSignal), 9U);
  // The signal with a core dump.
  EXPECT_EQ(ExitedMessage(6 | 0x80).Number(Tag::kExitSignal), 6U);
}

// A naive shim blames the OOM kill of an earlier exec for each end.
TEST(TaskShim, OnlySigkillIsAnEndForLackOfMemory) {
  EXPECT_TRUE(EndedBySigkill(9));
  EXPECT_TRUE(EndedBySigkill(137 << 8));  // a shell whose command was killed
  EXPECT_FALSE(EndedBySigkill(0));
  EXPECT_FALSE(EndedBySigkill(1 << 8));
  EXPECT_FALSE(EndedBySigkill(15));
  EXPECT_FALSE(EndedBySigkill(9 << 8));
}

TEST(TaskShim, CountsOomKills) {
  EXPECT_EQ(ParseOomKills("low 0\nhigh 0\nmax 31\noom 2\noom_kill 2\n"
                          "oom_group_kill 1\n"),
            2U);
  EXPECT_EQ(ParseOomKills("oom_kill 7"), 7U);
  EXPECT_EQ(ParseOomKills("oom_kill\n"), 0U);
  EXPECT_EQ(ParseOomKills("oom_kill x\n"), 0U);
  // There is no memory controller.
  EXPECT_EQ(ParseOomKills(""), 0U);
}

}  // namespace
}  // namespace mountd::shim
