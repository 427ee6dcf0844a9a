// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/output/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "agent/mountctl/output/exposition.h"
#include "agent/mountctl/output/replace_file.h"
#include "tests/golden/golden.h"
#include "tests/support/temp_directory.h"

namespace mountd::agent::test {
namespace {

using mountd::test::ExpectGolden;
using mountd::test::ExpectGoldenFiles;
using testing::HasSubstr;

std::string ContentOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file),
          std::istreambuf_iterator<char>()};
}

TEST(Exposition, AFamilyIsTwoLinesAndItsSamples) {
  Exposition out;
  out.Family("x_total", "counter", "How many.");
  out.Sample(3, {{"a", "b"}, {"c", "d"}});
  out.Sample(0.25);
  EXPECT_EQ(out.text(),
            "# HELP x_total How many.\n# TYPE x_total counter\n"
            "x_total{a=\"b\",c=\"d\"} 3\nx_total 0.25\n");
}

TEST(Exposition, ALabelsValueCannotLeaveItsQuotesOrItsLine) {
  Exposition out;
  out.Family("x", "gauge", "X.");
  out.Sample(1, {{"l", "a\\b\"c\nd"}});
  EXPECT_THAT(out.text(), HasSubstr("x{l=\"a\\\\b\\\"c\\nd\"} 1\n"));
}

TEST(Exposition, WhatIsNotUtf8IsReplacedAndWhatIsStays) {
  Exposition out;
  out.Family("x", "gauge", "X.");
  out.Sample(1, {{"l", "a\xff"}, {"m", "\xc3\xa4"}});
  EXPECT_THAT(out.text(), HasSubstr("x{l=\"a?\",m=\"\xc3\xa4\"} 1\n"));
}

TEST(Exposition, NumbersAreExact) {
  Exposition out;
  out.Family("x", "gauge", "X.");
  out.Sample(4294967295.0);
  out.Sample(0.00012);
  out.Sample(12345678901234.0);
  EXPECT_THAT(out.text(), HasSubstr("x 4294967295\nx 0.00012\n"));
  EXPECT_THAT(out.text(), HasSubstr("x 12345678901234\n"));
}

NodeMetrics MetricsOfANode() {
  NodeMetrics node;
  node.offers.version = "0.1.0";
  node.offers.kernel = "6.12";
  node.offers.addresses = {{"default", {254, 250}}};
  node.offers.stuck_executors = 1;
  node.offers.stores_set_aside = {"boot.db.corrupt-1"};
  node.statistics = {{"BindMount", 9, 1, 120, 950}};
  node.free_host_ports = 99;
  node.dropped_peers = {{"unread", 7}};
  node.owed = 2;
  node.oldest_owed = std::chrono::seconds(61);
  PluginStatus sick;
  sick.id = "csi\"x";
  sick.state = "unhealthy";
  node.plugins = {sick};
  node.allocations = {{"prepared", 4}};
  node.mounts = {{{"attached", "hung"}, 2}};
  node.volumes = {{"staged", 1}};
  return node;
}

TEST(MetricsGolden, TellAllThatIsKnown) {
  ExpectGolden("metrics/node.txt", ToExposition(MetricsOfANode()));
}

TEST(MetricsGolden, OfAMountdThatDoesNotAnswerAreThatAlone) {
  ExpectGolden("metrics/nothing.txt", ExpositionOfNothing());
}

TEST(MetricsGolden, NoFileIsLeftBehind) {
  ExpectGoldenFiles("metrics", {"node.txt", "nothing.txt"});
}

// node_exporter drops a file that begins a family twice. Each sample must
// belong to the family before it.
TEST(Metrics, EachFamilyIsBegunOnceAndFollowedByItsOwnSamples) {
  std::istringstream lines(ToExposition(MetricsOfANode()));
  std::set<std::string> helped;
  std::set<std::string> typed;
  std::string family;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string hash;
    std::string what;
    words >> hash >> what;
    if (hash != "#") {
      EXPECT_EQ(line.substr(0, line.find_first_of("{ ")), family) << line;
      continue;
    }
    words >> family;
    EXPECT_TRUE((what == "HELP" ? helped : typed).insert(family).second)
        << line;
  }
  EXPECT_EQ(helped, typed);
  EXPECT_GT(helped.size(), 10U);
}

TEST(Metrics, CountersAloneEndInTotal) {
  std::istringstream lines(ToExposition(MetricsOfANode()));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) {
      EXPECT_EQ(line.ends_with("_total counter"), line.ends_with("counter"));
    }
  }
}

TEST(ReplaceFile, ReplacesAndIsReadableByAll) {
  const TempDirectory directory;
  const std::string path = directory.File("x.prom");
  std::ofstream(path) << "old, and longer than the new one";
  ASSERT_TRUE(ReplaceFile(path, "new\n"));
  EXPECT_EQ(ContentOf(path), "new\n");
  struct stat file {};
  ASSERT_EQ(::stat(path.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 07777U, 0644U);
}

// A reader of the old file keeps the old content, because the file is replaced
// and not overwritten.
TEST(ReplaceFile, TheOldOneStaysWholeForWhoReadsIt) {
  const TempDirectory directory;
  const std::string path = directory.File("x.prom");
  std::ofstream(path) << "old";
  std::ifstream reader(path);
  ASSERT_TRUE(ReplaceFile(path, "new"));
  std::string text;
  reader >> text;
  EXPECT_EQ(text, "old");
}

TEST(ReplaceFile, NothingIsLeftOfOneThatFails) {
  const TempDirectory directory;
  // A directory of that name that is not empty makes rename(2) fail at the end.
  std::filesystem::create_directories(directory.File("d/x.prom/in"));
  const Result<void> replaced = ReplaceFile(directory.File("d/x.prom"), "new");
  ASSERT_FALSE(replaced);
  EXPECT_EQ(replaced.error().op, "rename");
  int left = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(directory.File("d"))) {
    ++left;
  }
  EXPECT_EQ(left, 1);
  EXPECT_EQ(ReplaceFile(directory.File("none/x"), "new").error().code,
            Code::kNotFound);
}

}  // namespace
}  // namespace mountd::agent::test
