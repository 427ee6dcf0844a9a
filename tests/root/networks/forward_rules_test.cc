// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/plans/forward_rules.h"

#include <cstdlib>
#include <string>

#include "mountd/kernel/nft_command.h"
#include "netns/plans/netlink.h"
#include "tests/root/networks/network_fixture.h"

// Networks beside a chain FORWARD that drops, as docker and firewalld leave it.
namespace mountd::testing {
namespace {

using exec::PlanKind;

// Returns the chain as nft lists it; "" if there is none.
std::string ForwardChain(const std::string& family) {
  const std::string command =
      "nft list chain " + family + " filter FORWARD 2>/dev/null";
  FILE* const pipe = ::popen(command.c_str(), "r");
  std::string text;
  std::array<char, 4096> some{};
  std::size_t size = 0;
  while (pipe != nullptr &&
         (size = ::fread(some.data(), 1, some.size(), pipe)) > 0) {
    text.append(some.data(), size);
  }
  if (pipe != nullptr) {
    ::pclose(pipe);
  }
  return text;
}

std::size_t CountOf(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

class ForwardRules : public Networks {
 protected:
  static void Nft(const std::string& commands) {
    ASSERT_TRUE(exec::RunNftCommand(commands).has_value()) << commands;
  }
  static void MakeDroppingChain(const std::string& family) {
    Nft("add table " + family + " filter\nadd chain " + family +
        " filter FORWARD { type filter hook forward priority 0; policy drop; "
        "}\nadd rule " +
        family + " filter FORWARD ct state established counter accept\n");
  }
  void Prepare(bool wanted) {
    config_.firewall.forward_rules = wanted;
    ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareNetworks)), "");
  }
  static std::size_t Own(const std::string& family) {
    return CountOf(ForwardChain(family), "comment \"mountd: ");
  }
  void TearDown() override {
    IgnoreBecauseBestEffort(exec::RunNftCommand("delete table ip filter\n"));
    IgnoreBecauseBestEffort(exec::RunNftCommand("delete table ip6 filter\n"));
    Networks::TearDown();
  }
};

TEST_F(ForwardRules, ArePutWhereTheChainIsAndOnlyOnce) {
  Prepare(true);
  EXPECT_EQ(ForwardChain("ip"), "") << "no chain is made";
  MakeDroppingChain("ip");
  Prepare(true);
  Prepare(true);
  EXPECT_EQ(Own("ip"), 2U);
  const std::string text = ForwardChain("ip");
  EXPECT_LT(text.find("md*"), text.find("established")) << text;
  EXPECT_NE(text.find("policy drop"), std::string::npos);
  EXPECT_EQ(ForwardChain("ip6"), "");
  MakeDroppingChain("ip6");
  Prepare(true);
  EXPECT_EQ(Own("ip6"), 2U);
}

TEST_F(ForwardRules, AreNotPutUnlessTheyAreWantedAndGoOtherwise) {
  MakeDroppingChain("ip");
  const std::string before = ForwardChain("ip");
  Prepare(false);
  EXPECT_EQ(ForwardChain("ip"), before);
  Prepare(true);
  EXPECT_EQ(Own("ip"), 2U);
  Prepare(false);
  EXPECT_EQ(ForwardChain("ip"), before);
}

// No dump of the chain is without a change of another table.
TEST_F(ForwardRules, NeedNoPauseInForeignChanges) {
  MakeDroppingChain("ip");
  // The dump has several parts.
  std::string many;
  for (int i = 0; i < 500; ++i) {
    many += "add rule ip filter FORWARD ip saddr 192.0.2.1 counter accept\n";
  }
  Nft(many);
  Nft("add table inet other; add set inet other s { type inet_service; }");
  Prepare(true);
  int changes = 0;
  kernel_.Before([&](const std::string& call) {
    if (call == "Send" || call == "Receive") {
      Nft((changes++ % 2 == 0 ? "add" : "delete") +
          std::string(" element inet other s { 7 }"));
    }
  });
  Prepare(true);
  kernel_.Before([](const std::string& /*call*/) {});
  EXPECT_GT(changes, 0);
  EXPECT_EQ(Own("ip"), 2U);
}

TEST_F(ForwardRules, OneThatWasTakenAwayComesBack) {
  MakeDroppingChain("ip");
  Prepare(true);
  Nft("flush chain ip filter FORWARD\n");
  EXPECT_EQ(Own("ip"), 0U);
  Prepare(true);
  EXPECT_EQ(Own("ip"), 2U);
  EXPECT_EQ(CountOf(ForwardChain("ip"), "established"), 0U);
}

}  // namespace
}  // namespace mountd::testing
