// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/golden/golden.h"

#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/support/temp_directory.h"

namespace mountd::test {
namespace {

using ::testing::HasSubstr;

class GoldenFiles : public ::testing::Test {
 protected:
  std::string Compare(const std::string& text, bool update = false) {
    return CompareWithGolden(path_, text, update);
  }

  TempDirectory directory_;
  std::string path_ = directory_.File("made/status.txt");
};

TEST_F(GoldenFiles, OneThatIsMissingIsAFailureThatSaysHowToWriteIt) {
  EXPECT_THAT(Compare("a\n"), HasSubstr("UPDATE_GOLDEN=1"));
  EXPECT_FALSE(std::ifstream(path_).is_open());
}

TEST_F(GoldenFiles, AnUpdateWritesTheFileAndItsFolder) {
  EXPECT_EQ(Compare("a\nb\n", true), "");
  EXPECT_EQ(Compare("a\nb\n"), "");
  EXPECT_EQ(Compare("c\n", true), "");
  EXPECT_EQ(Compare("c\n"), "");
}

TEST_F(GoldenFiles, AnyOtherTextIsAFailureThatShowsTheLines) {
  ASSERT_EQ(Compare("one\ntwo\nthree\n", true), "");
  EXPECT_THAT(Compare("one\n2\nthree\n"), HasSubstr("-two\n+2\n"));
  EXPECT_NE(Compare("one\ntwo\nthree"), "");
  EXPECT_NE(Compare(""), "");
  EXPECT_EQ(Compare("one\ntwo\nthree\n"), "");
}

TEST_F(GoldenFiles, AnUpdateThatCannotWriteIsAFailure) {
  ASSERT_EQ(Compare("a\n", true), "");
  // A file is no directory, whoever the test runs as.
  EXPECT_THAT(CompareWithGolden(path_ + "/below", "a\n", true),
              HasSubstr("cannot be written"));
}

}  // namespace
}  // namespace mountd::test
