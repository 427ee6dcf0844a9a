// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The stand-in for iptables: what a Nomad client asks, and nothing else.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "agent/nomad/iptables_answers.h"
#include "tests/support/program.h"
#include "tests/support/temp_directory.h"

namespace mountd::nomad {
namespace {

using Words = std::vector<std::string>;

const Words kRule = {"-t", "filter",         "-C", "NOMAD-ADMIN", "-o", "nomad",
                     "-d", "172.26.64.0/20", "-j", "ACCEPT"};

Words With(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(NomadIptables, AnswersTheCallsOfAClient) {
  for (const Words& wait : {Words{}, Words{"--wait"}, Words{"--wait", "5"}}) {
    const auto chains =
        AnswerIptables("iptables", With({"-t", "filter", "-S"}, wait));
    EXPECT_EQ(chains.status, 0);
    EXPECT_EQ(chains.out,
              "-P INPUT ACCEPT\n-P FORWARD ACCEPT\n-P OUTPUT ACCEPT\n"
              "-N NOMAD-ADMIN\n");
    const auto rule = AnswerIptables("iptables", With(kRule, wait));
    EXPECT_EQ(rule.status, 0);
    EXPECT_EQ(rule.out + rule.err, "");
    const auto nat = AnswerIptables(
        "ip6tables", With({"-t", "nat", "-S", "POSTROUTING"}, wait));
    EXPECT_EQ(nat.status, 0);
    EXPECT_EQ(nat.out, "-P POSTROUTING ACCEPT\n");
  }
}

// A status of 1 would say that a rule is not there, or that a chain is there.
TEST(NomadIptables, RefusesEverythingElse) {
  Words other_chain = kRule;
  other_chain[3] = "FORWARD";
  Words option = kRule;
  option[5] = "--log";
  Words append = kRule;
  append[2] = "-A";
  for (const Words& words :
       std::vector<Words>{{},
                          {"-S"},
                          {"--wait"},
                          {"-t", "filter", "-S", "FORWARD"},
                          {"-t", "filter", "-S", "--wait", "x"},
                          {"-t", "filter", "-N", "NOMAD-ADMIN", "--wait"},
                          {"-t", "filter", "-F"},
                          {"-t", "nat", "-S"},
                          {"-t", "nat", "-D", "POSTROUTING", "1"},
                          {"--version", "--wait"},
                          With(kRule, {"-m", "comment"}),
                          other_chain,
                          option,
                          append}) {
    const auto reply = AnswerIptables("ip6tables", words);
    EXPECT_EQ(reply.status, 4);
    EXPECT_EQ(reply.out, "");
    EXPECT_NE(reply.err.find("Run /usr/sbin/ip6tables"), std::string::npos);
  }
}

// go-iptables looks for this pattern in stdout.
TEST(NomadIptables, IsAProgramOfTwoNames) {
  const TempDirectory directory;
  for (const std::string& name : Words{"iptables", "ip6tables"}) {
    const std::string path = directory.File(name);
    std::filesystem::create_symlink(MOUNTD_NOMAD_IPTABLES, path);
    const auto version = test::RunProgram({path, "--version"});
    EXPECT_EQ(version.status, 0);
    EXPECT_EQ(version.out.find(name + " v1.8.9 (nf_tables)"), 0U);
    const auto refused = test::RunProgram({path, "-F"});
    EXPECT_EQ(refused.status, 4);
    EXPECT_EQ(refused.err.find(name + ": "), 0U);
  }
}

}  // namespace
}  // namespace mountd::nomad
