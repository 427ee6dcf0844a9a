// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/matchers.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>

namespace mountd {
namespace {

Result<int> Answer() { return 42; }
Result<void> Nothing() { return Ok(); }
Result<int> Missing() {
  return ErrnoError(ENOENT, "openat2", "web", "is not prepared");
}
Result<std::unique_ptr<int>> Owned() { return std::make_unique<int>(7); }

TEST(Matchers, ASuccessOfAnyTypeIsOk) {
  EXPECT_THAT(Answer(), IsOk());
  EXPECT_THAT(Nothing(), IsOk());
  EXPECT_THAT(Owned(), IsOk());
  EXPECT_THAT(Missing(), ::testing::Not(IsOk()));
}

TEST(Matchers, AnErrorHasItsCodeAndNoOther) {
  EXPECT_THAT(Missing(), IsErr(Code::kNotFound));
  EXPECT_THAT(Missing(), ::testing::Not(IsErr(Code::kBusy)));
  EXPECT_THAT(Answer(), ::testing::Not(IsErr(Code::kNotFound)));
  EXPECT_THAT(Result<void>(MakeError(Code::kBusy, "umount2", "web")),
              IsErr(Code::kBusy));
}

TEST(Matchers, AnErrorsTextHasThePart) {
  EXPECT_THAT(Missing(), IsErrOf(Code::kNotFound, "web: is not prepared"));
  EXPECT_THAT(Missing(), ::testing::Not(IsErrOf(Code::kNotFound, "db")));
  EXPECT_THAT(Missing(), ::testing::Not(IsErrOf(Code::kBusy, "web")));
  EXPECT_THAT(Nothing(), ::testing::Not(IsErrOf(Code::kNotFound, "")));
}

// The text of a failed check is what a person reads first.
TEST(Matchers, AFailurePrintsTheErrorsNameAndText) {
  EXPECT_NONFATAL_FAILURE(EXPECT_THAT(Missing(), IsOk()),
                          "NotFound: openat2 web: is not prepared (ENOENT)");
  EXPECT_NONFATAL_FAILURE(EXPECT_THAT(Missing(), IsErr(Code::kBusy)),
                          "NotFound: openat2 web: is not prepared (ENOENT)");
  EXPECT_NONFATAL_FAILURE(EXPECT_THAT(Answer(), IsErr(Code::kBusy)), "is Busy");
  EXPECT_NONFATAL_FAILURE(EXPECT_THAT(Nothing(), IsErr(Code::kBusy)), "Ok");
  EXPECT_NONFATAL_FAILURE(
      EXPECT_THAT(Missing(), IsErrOf(Code::kNotFound, "db")),
      "is NotFound with \"db\" in its text");
}

TEST(Matchers, AssignTakesTheValueAlsoOfWhatCannotBeCopied) {
  ASSERT_OK_AND_ASSIGN(const int answer, Answer());
  EXPECT_EQ(answer, 42);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<int> owned, Owned());
  EXPECT_EQ(*owned, 7);
}

bool went_on = false;

void AssignAnError() {
  ASSERT_OK_AND_ASSIGN(const int answer, Missing());
  went_on = answer != 0;
}

TEST(Matchers, AssignEndsTheTestWithTheErrorsText) {
  EXPECT_FATAL_FAILURE(AssignAnError(), "is not prepared (ENOENT)");
  EXPECT_FALSE(went_on);
}

}  // namespace
}  // namespace mountd
