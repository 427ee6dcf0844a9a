// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/options.h"

#include <gtest/gtest.h>

#include "tests/support/outcome.h"

namespace mountd::cni {
namespace {

using Words = std::vector<std::string>;

Result<Options> Parse(Words words) {
  words.insert(words.begin(), "mountd-cni-run");
  std::vector<char*> pointers;
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  return ParseOptions(static_cast<int>(words.size()), pointers.data());
}

Words For(const std::string& verb, const Words& more) {
  Words words = {"--state-dir", "/run/state"};
  if (verb == "add") {
    words.insert(words.end(), {"--netns", "/run/netns/web"});
  }
  words.insert(words.end(), more.begin(), more.end());
  words.push_back(verb);
  return words;
}

std::string PortsText(const std::string& list) {
  const auto options = Parse(For("add", {"--host-ports", list}));
  if (!options) {
    return Outcome(options);
  }
  std::string text = options->bounds.host_ports ? "only" : "any";
  for (const NumberRange& range : options->bounds.host_ports.value()) {
    text +=
        " " + std::to_string(range.first) + "-" + std::to_string(range.last);
  }
  return text;
}

TEST(CniOptionsTest, WithoutABoundARequestMayBeAboutAnything) {
  const auto options = Parse(For("add", {}));
  ASSERT_EQ(MessageOf(options), "Ok");
  EXPECT_EQ(options->bounds.network, "");
  EXPECT_EQ(options->bounds.container_id, "");
  EXPECT_FALSE(options->bounds.host_ports.has_value());
}

TEST(CniOptionsTest, BoundsAreNames) {
  const auto options =
      Parse(For("add", {"--network", "net", "--container-id=web.1"}));
  ASSERT_EQ(MessageOf(options), "Ok");
  EXPECT_EQ(options->bounds.network, "net");
  EXPECT_EQ(options->bounds.container_id, "web.1");
  for (const char* name : {"", "../a", "a b", "a\n", "-a"}) {
    for (const char* bound : {"--network", "--container-id"}) {
      EXPECT_EQ(Outcome(Parse(For("add", {bound, name}))), "InvalidArgument")
          << bound << " " << name;
    }
  }
}

TEST(CniOptionsTest, PortsAreNumbersAndRanges) {
  EXPECT_EQ(PortsText(""), "only");
  EXPECT_EQ(PortsText("8080"), "only 8080-8080");
  EXPECT_EQ(PortsText("20000-20999,8080"), "only 20000-20999 8080-8080");
  EXPECT_EQ(PortsText("1-65535"), "only 1-65535");
  for (const char* list :
       {",",       "1,",  ",1",   "1,,2", "0",     "0-1", "65536",
        "1-65536", "2-1", "-1",   "1-",   "1-2-3", " 1",  "1 ",
        "1, 2",    "+1",  "0x10", "a",    "any",   "1;2", "4294967297"}) {
    EXPECT_EQ(PortsText(list), "InvalidArgument") << "\"" << list << "\"";
  }
}

TEST(CniOptionsTest, ABoundIsToldOnce) {
  for (const Words& twice :
       {Words{"--network", "a", "--network", "b"},
        Words{"--container-id", "a", "--container-id", "b"},
        Words{"--host-ports", "", "--host-ports", "1"}}) {
    EXPECT_EQ(Outcome(Parse(For("add", twice))), "InvalidArgument") << twice[0];
  }
}

// Returns "VERB OPTION" for each option that the verb takes.
Words TakenBounds() {
  Words taken;
  for (const char* verb : {"add", "check", "del", "gc", "status", "list"}) {
    for (const char* bound : {"--network", "--container-id", "--host-ports"}) {
      if (Parse(For(verb, {bound, "1"}))) {
        taken.push_back(std::string(verb) + " " + bound);
      }
    }
  }
  return taken;
}

TEST(CniOptionsTest, AVerbTakesTheBoundsThatItLooksAt) {
  EXPECT_EQ(TakenBounds(),
            (Words{"add --network", "add --container-id", "add --host-ports",
                   "check --network", "check --container-id",
                   "check --host-ports", "del --network", "del --container-id",
                   "del --host-ports", "gc --network", "status --network"}));
}

}  // namespace
}  // namespace mountd::cni
