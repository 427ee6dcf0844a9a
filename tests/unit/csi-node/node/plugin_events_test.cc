// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/node/plugin_events.h"

#include <gtest/gtest.h>

namespace mountd::csi {
namespace {

PluginInstance Instance(PluginState state, const std::string& reason = "") {
  PluginInstance instance;
  instance.record.id = "nfs";
  instance.state = state;
  instance.reason = reason;
  return instance;
}

std::string TextOf(const PluginInstance& before, const PluginInstance& now) {
  const auto event = EventOf({PluginChange::Kind::kChanged, now, before});
  return event ? event->event + "|" + event->message : "";
}

TEST(PluginEventsTest, OnlyChangesOfHealthAreEvents) {
  const PluginInstance starting = Instance(PluginState::kStarting);
  const PluginInstance healthy = Instance(PluginState::kHealthy);
  const PluginInstance unhealthy = Instance(PluginState::kUnhealthy, "gone");
  EXPECT_EQ(TextOf(starting, healthy), "Plugin became healthy|plugin: nfs");
  EXPECT_EQ(TextOf(unhealthy, healthy), "Plugin became healthy|plugin: nfs");
  EXPECT_EQ(TextOf(healthy, unhealthy), "Plugin became unhealthy|Error: gone");
  EXPECT_EQ(TextOf(starting, unhealthy), "Plugin became unhealthy|Error: gone");
  EXPECT_EQ(TextOf(healthy, Instance(PluginState::kUnhealthy)),
            "Plugin became unhealthy|Unknown Reason");
  EXPECT_EQ(TextOf(healthy, healthy), "");
  EXPECT_EQ(TextOf(unhealthy, Instance(PluginState::kUnhealthy, "other")), "");
}

TEST(PluginEventsTest, OtherChangesAreNone) {
  using Kind = PluginChange::Kind;
  for (const Kind kind : {Kind::kAdded, Kind::kRemoved, Kind::kPlugin}) {
    EXPECT_FALSE(EventOf({kind, Instance(PluginState::kHealthy)}).has_value());
  }
}

// A plugin that says something else of the node each second must not hurry all
// users' tear-downs.
TEST(PluginEventsTest, APluginComesBackByItsHealthOrItsConnection) {
  using Kind = PluginChange::Kind;
  const PluginInstance unhealthy = Instance(PluginState::kUnhealthy);
  PluginInstance healthy = Instance(PluginState::kHealthy);
  healthy.generation = 1;
  PluginInstance other = healthy;
  other.node.max_volumes = 8;
  EXPECT_TRUE(HasComeBack({Kind::kChanged, healthy, unhealthy}));
  EXPECT_FALSE(HasComeBack({Kind::kChanged, other, healthy}));
  other.generation = 2;
  EXPECT_TRUE(HasComeBack({Kind::kChanged, other, healthy}));
  EXPECT_FALSE(HasComeBack({Kind::kChanged, unhealthy, healthy}));
  EXPECT_TRUE(HasComeBack({Kind::kPlugin, healthy}));
  EXPECT_FALSE(HasComeBack({Kind::kPlugin, unhealthy}));
}

TEST(PluginEventsTest, TheReasonIsOneLine) {
  EXPECT_EQ(TextOf(Instance(PluginState::kHealthy),
                   Instance(PluginState::kUnhealthy, "a\nb\x1b[2J")),
            "Plugin became unhealthy|Error: a?b?[2J");
}

}  // namespace
}  // namespace mountd::csi
