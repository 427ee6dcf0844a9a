// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/namespaces/subordinate_ids.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "agent/driver/namespaces/id_maps.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_directory.h"

namespace mountd::driver {

void PrintTo(const IdRange& range, std::ostream* out) {
  *out << range.first << "+" << range.count;
}
void PrintTo(const IdMapLine& line, std::ostream* out) {
  *out << line.inside << " " << line.outside << " " << line.count;
}

namespace {

using Ranges = std::vector<IdRange>;
const IdOwner kWeb{"web", 1000};

Ranges Of(const std::string& text, std::uint32_t own = 1000) {
  return SubordinateRanges(text, kWeb, own);
}

TEST(SubordinateIds, ANameOrAUidNamesTheUser) {
  EXPECT_EQ(Of("web:100000:65536\n"), (Ranges{{100000, 65536}}));
  EXPECT_EQ(Of("1000:100000:65536\n"), (Ranges{{100000, 65536}}));
  EXPECT_EQ(Of("web:100000:10\n1000:200000:10"),
            (Ranges{{100000, 10}, {200000, 10}}));
}

TEST(SubordinateIds, OtherUsersRangesAreNotTheirs) {
  EXPECT_EQ(Of("we:1:2\nwebb:3:4\n100:5:6\n10000:7:8\nWEB:9:10\n"), Ranges{});
  EXPECT_EQ(SubordinateRanges(":100000:10\n", IdOwner{"", 1000}, 1000),
            Ranges{});
}

TEST(SubordinateIds, MalformedLinesAreSkipped) {
  for (const char* line :
       {"web", "web:", "web:100000", "web:100000:", "web::10", "web:-1:10",
        "web:100000:10:10", "web: 100000:10", "web:100000:10 ", "web:1e5:10",
        "web:100000:0", "web:4294967295:1", "web:4294967290:10",
        "web:99999999999:1", "web:1:4294967295", "#web:100000:10",
        ":::", " web:100000:10"}) {
    EXPECT_EQ(Of(std::string(line) + "\nweb:300000:5\n"), (Ranges{{300000, 5}}))
        << line;
  }
  EXPECT_EQ(Of("web:100000:10\r\n"), Ranges{});
  EXPECT_EQ(Of(std::string("web:100000:1\0\n", 14)), Ranges{});
}

TEST(SubordinateIds, RangesThatOverlapOrTouchAreOne) {
  EXPECT_EQ(Of("web:200:50\nweb:100:120\nweb:110:5\n1000:250:10\n"),
            (Ranges{{100, 160}}));
  EXPECT_EQ(Of("web:100:10\nweb:111:10\n"), (Ranges{{100, 10}, {111, 10}}));
}

TEST(SubordinateIds, TheUsersOwnIdAndRootAreLeftOut) {
  EXPECT_EQ(Of("web:0:2000\n"), (Ranges{{1, 999}, {1001, 999}}));
  EXPECT_EQ(Of("web:1000:1\n"), Ranges{});
  EXPECT_EQ(Of("web:1000:2\nweb:0:1\n"), (Ranges{{1001, 1}}));
  EXPECT_EQ(Of("web:999:2\n"), (Ranges{{999, 1}}));
}

TEST(SubordinateIds, TheLastIdIsTaken) {
  EXPECT_EQ(Of("web:4294967294:1\n"), (Ranges{{4294967294U, 1}}));
}

TEST(SubordinateIds, TheKernelTakesNoMoreRanges) {
  std::string text;
  for (int i = 500; i > 0; --i) {
    text += "web:" + std::to_string(10000 + i * 10) + ":5\n";
  }
  const Ranges ranges = Of(text);
  ASSERT_EQ(ranges.size(), kMostRanges);
  EXPECT_EQ(ranges.front(), (IdRange{10010, 5}));
}

TEST(SubordinateIds, AFileOfManyUsersIsRead) {
  const TempDirectory directory;
  const std::string path = directory.File("subuid");
  {
    std::ofstream file(path);
    for (int i = 0; i < 200000; ++i) {
      file << "user" << i << ":" << 1000000 + i * 100 << ":100\n";
    }
    file << "web:500000:7";
  }
  ASSERT_OK_AND_ASSIGN(const Ranges ranges,
                       ReadSubordinateRanges(path, kWeb, 1000));
  EXPECT_EQ(ranges, (Ranges{{500000, 7}}));
}

TEST(SubordinateIds, AFileWithoutEndIsRefused) {
  const TempDirectory directory;
  const std::string path = directory.File("subuid");
  std::ofstream(path) << "web:500000:7\n";
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(kMostBytes) + 1), 0);
  EXPECT_THAT(ReadSubordinateRanges(path, kWeb, 1000),
              IsErrOf(Code::kResourceExhausted, path));
}

TEST(SubordinateIds, AFifoDoesNotBlock) {
  const TempDirectory directory;
  const std::string path = directory.File("subuid");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(ReadSubordinateRanges(path, kWeb, 1000),
              IsErr(Code::kInvalidArgument));
  EXPECT_THAT(ReadSubordinateRanges("/dev/zero", kWeb, 1000),
              IsErr(Code::kInvalidArgument));
}

TEST(SubordinateIds, NoFileMeansNoRanges) {
  const TempDirectory directory;
  ASSERT_OK_AND_ASSIGN(
      const Ranges ranges,
      ReadSubordinateRanges(directory.File("none"), kWeb, 1000));
  EXPECT_EQ(ranges, Ranges{});
}

TEST(IdMapOf, RootIsTheUserAndOthersFollowWithoutGap) {
  EXPECT_EQ(MapOf(1000, {}), (IdMap{{0, 1000, 1}}));
  EXPECT_EQ(MapOf(1000, {{100, 5}, {200, 7}}),
            (IdMap{{0, 1000, 1}, {1, 100, 5}, {6, 200, 7}}));
}

TEST(IdMapOf, PingIsForAllGroupsThatTheKernelCanTell) {
  using Pair = std::pair<std::uint32_t, std::uint32_t>;
  EXPECT_EQ(PingGroups(MapOf(1000, {})), (Pair{0, 0}));
  EXPECT_EQ(PingGroups(MapOf(1000, {{100000, 65535}})), (Pair{0, 65535}));
  EXPECT_EQ(PingGroups(MapOf(1000, {{100, 5}, {200000, 7}})), (Pair{0, 12}));
  EXPECT_EQ(PingGroups(MapOf(300000, {{100000, 65535}})), (Pair{0, 0}));
}

}  // namespace
}  // namespace mountd::driver
