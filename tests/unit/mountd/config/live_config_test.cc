// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/config/live_config.h"

#include <gtest/gtest.h>

#include "mountd/policy/policy.h"
#include "tests/support/outcome.h"

namespace mountd {
namespace {

using Names = std::vector<std::string>;

constexpr char kText[] = R"([host_volume.data]
path = "/srv/data"
[plugin.nfs]
type = "node"
command = ["/usr/bin/nfs"]
[network.default]
ipv4 = "10.0.0.0/24"
[[rule]]
users = ["root"]
host_volumes = ["data"]
[[rule]]
users = ["root"]
bidirectional = true
)";

Config Made(const std::string& text) {
  return ParseConfig(text, "test").value();
}

TEST(LiveConfig, RulesAndSourcesNeedNoOtherProcess) {
  const LiveConfig live(Made(kText));
  Config next = Made(kText);
  next.rules.clear();
  next.host_volumes.clear();
  next.filesystems["images"].type = "nfs4";
  EXPECT_EQ(live.SectionsThatNeedRestart(next), Names{});
}

TEST(LiveConfig, EachOtherSectionDoes) {
  const LiveConfig live(Made(kText));
  const std::vector<std::pair<std::string, std::string>> sections = {
      {"plugin", "[plugin.b]\ntype = \"node\"\ncommand = [\"/b\"]"},
      {"network", "[network.b]\nipv4 = \"10.1.0.0/24\""},
      {"cni", "[cni]\nconfig_dirs = [\"/a\"]\nplugin_dirs = [\"/b\"]"},
      {"firewall", "[firewall]\nforward_rules = true"},
      {"mounts", "[mounts]\nnamespace = \"own\""},
      {"limits", "[limits]\npeers_per_uid = 1"},
      {"timeouts", "[timeouts]\nplan_ms = 9000"}};
  for (const auto& [name, text] : sections) {
    EXPECT_EQ(live.SectionsThatNeedRestart(Made(kText + text)), Names{name});
  }
}

TEST(LiveConfig, WhoHoldsTheOldOneKeepsIt) {
  LiveConfig live(Made(kText));
  const std::shared_ptr<const Config> held = live.Get();
  Config next = Made(kText);
  next.rules.clear();
  next.networks.clear();
  live.ReplaceLive(next);
  EXPECT_EQ(held->rules.size(), 2U);
  EXPECT_EQ(live.Get()->rules.size(), 0U);
  // This section stays for the life of the process.
  EXPECT_EQ(live.Get()->networks.size(), 1U);
  EXPECT_EQ(live.networks().size(), 1U);
}

TEST(LiveConfig, WhichRulesAllowACallIsWrittenDown) {
  const LiveConfig live(Made(kText));
  const auto decisions = std::make_shared<Decisions>();
  const Policy policy(live.Get(), decisions);
  Caller root;
  EXPECT_EQ(MessageOf(policy.mounts().MayMountHostVolume(
                root, "data", true, exec::Propagation::kPrivate)),
            "Ok");
  EXPECT_EQ(decisions->Rules(), "8");
  EXPECT_EQ(MessageOf(policy.mounts().MayPropagate(
                root, exec::Propagation::kBidirectional)),
            "Ok");
  EXPECT_EQ(decisions->Rules(), "8,11");
  // A refused call rests on no rule.
  EXPECT_EQ(Outcome(policy.mounts().MayOpenTree(root)), "PermissionDenied");
  EXPECT_EQ(decisions->Rules(), "");
}

}  // namespace
}  // namespace mountd
