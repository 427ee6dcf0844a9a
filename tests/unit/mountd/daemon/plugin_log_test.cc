// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/daemon/plugin_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "tests/unit/mountd/daemon/logged.h"

namespace mountd {
namespace {

csi::PluginChange Change(const csi::NodeInfo& before,
                         const csi::NodeInfo& now) {
  csi::PluginChange change;
  change.before.node = before;
  change.now.node = now;
  change.now.record.id = "nfs";
  change.now.record.uid = 1000;
  return change;
}

void Log(const csi::PluginChange& change, PluginLog& log,
         PluginLog::Clock::time_point now) {
  log.LogNodeInfo(change, *csi::NodeInfoChangeOf(change), now);
}

TEST(PluginLogTest, SaysWhatAPluginSaysOfTheNode) {
  PluginLog log;
  EXPECT_EQ(Logged(
                [&] {
                  Log(Change({"n1", 8, {}}, {"n1", 9, {}}), log, {});
                  Log(Change({"n1", 9, {}}, {"n2", 9, {}}), log, {});
                },
                spdlog::level::info),
            "info: plugin nfs: its node information changed: max_volumes 8 -> "
            "9\n"
            "error: plugin nfs: its node id changed from n1 to n2, so volumes "
            "that are attached to n1 may not reach this node\n"
            "info: plugin nfs: its node information changed: node_id n1 -> "
            "n2\n");
}

// A user whose volumes do not fit can make mountd ask each second.
TEST(PluginLogTest, TheLinesOfOneUserAreBounded) {
  PluginLog log;
  PluginLog::Clock::time_point now{};
  VolumeRecord volume;
  volume.uid = 1000;
  volume.plugin = "nfs";
  const std::string text = Logged(
      [&] {
        for (int i = 0; i < 500; ++i) {
          Log(Change({"n1", i, {}}, {"n1", i + 1, {}}), log, now);
          log.LogCondition(volume, {true, std::to_string(i)}, now);
        }
        volume.uid = 1001;
        log.LogCondition(volume, {true, "of another user"}, now);
        now += std::chrono::seconds(2);
        Log(Change({"n1", 1, {}}, {"n1", 2, {}}), log, now);
      },
      spdlog::level::info);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 23);
  EXPECT_NE(text.find("of another user"), std::string::npos);
  EXPECT_NE(
      text.find("uid 1000: mountd left out 980 lines of what plugins say\n"),
      std::string::npos)
      << text;
}

}  // namespace
}  // namespace mountd
