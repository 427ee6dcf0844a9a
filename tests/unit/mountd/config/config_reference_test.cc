// SPDX-License-Identifier: LGPL-2.1-or-later
//
// man/mountd.toml, which mountd.toml(5) is made from, has the keys that the
// parser has.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "mountd/config/config.h"
#include "tests/support/matchers.h"
#include "tests/support/outcome.h"

namespace mountd {
namespace {

using Keys = std::set<std::string>;

// The reference, with accounts that every machine has.
std::string Reference() {
  std::ifstream file(MOUNTD_CONFIG_REFERENCE);
  std::string text(std::istreambuf_iterator<char>(file), {});
  text = std::regex_replace(text, std::regex("\"nomad\""), "\"root\"");
  return std::regex_replace(text, std::regex("\"mountd-agents\""), "\"root\"");
}

// The keys that the parser names when `line` is a key that it does not know.
Keys KnownTo(const std::string& text) {
  const auto parsed = ParseConfig(text, "mountd.toml");
  EXPECT_FALSE(parsed.has_value());
  const std::string message = MessageOf(parsed);
  const std::string before = "the keys here are ";
  const std::size_t at = message.find(before);
  EXPECT_NE(at, std::string::npos) << message;
  Keys keys;
  if (at == std::string::npos) {
    return keys;
  }
  std::istringstream words(message.substr(at + before.size()));
  for (std::string word; words >> word;) {
    keys.insert(word.substr(0, word.find_first_of(",)")));
  }
  return keys;
}

// The parser refuses a key that its lists of known keys lack. Such a list must
// not name a key that the parser never reads, because the key would then mean
// nothing.
TEST(ConfigReference, EachKeyIsReadAndNotOnlyKnown) {
  const std::string reference = Reference();
  std::istringstream lines(reference);
  const std::regex key("^([a-z_0-9]+) = .*");
  std::size_t at = 0;
  int keys = 0;
  for (std::string line; std::getline(lines, line); at += line.size() + 1) {
    std::smatch match;
    if (!std::regex_match(line, match, key)) {
      continue;
    }
    ++keys;
    // No key takes a date.
    const std::string text =
        reference.substr(0, at) + match[1].str() + " = 1979-05-27\n";
    EXPECT_THAT(ParseConfig(text, "mountd.toml"),
                IsErrOf(Code::kInvalidArgument, match[1].str()))
        << line;
  }
  EXPECT_GT(keys, 60);
}

TEST(ConfigReference, IsAConfiguration) {
  EXPECT_THAT(ParseConfig(Reference(), "mountd.toml"), IsOk());
}

TEST(ConfigReference, HasEachKeyOfEachTable) {
  const std::regex heading(R"(^\[+([a-z_]+)(\.[^\]]*)?\]+.*)");
  const std::regex key(R"(^([a-z_0-9]+) = .*)");
  std::istringstream lines(Reference());
  Keys sections;
  Keys named;
  std::string table;
  std::string above;
  const auto compare = [&] {
    if (!table.empty()) {
      EXPECT_EQ(named, KnownTo(above + "no_such_key = 1\n")) << table;
    }
    named.clear();
  };
  for (std::string line; std::getline(lines, line); above += line + "\n") {
    std::smatch match;
    if (std::regex_match(line, match, heading)) {
      compare();
      table = match[1];
      sections.insert(table);
    } else if (std::regex_match(line, match, key)) {
      named.insert(match[1]);
    }
  }
  compare();
  EXPECT_EQ(sections, KnownTo("no_such_key = 1\n"));
}

}  // namespace
}  // namespace mountd
