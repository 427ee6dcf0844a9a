// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/daemon/plugin_log.h"

#include <spdlog/spdlog.h>

#include "mountd/base/one_line.h"

namespace mountd {

void PluginLog::LogCondition(const VolumeRecord& volume,
                             const csi::VolumeCondition& condition,
                             Clock::time_point now) {
  if (Take(volume.uid, now)) {
    spdlog::warn(
        "the condition of volume {} of plugin {} is {}{}{}", volume.key.str(),
        volume.plugin, condition.abnormal ? "abnormal" : "normal",
        condition.message.empty() ? "" : ": ", OnOneLine(condition.message));
  }
}

void PluginLog::LogNodeInfo(const csi::PluginChange& change,
                            const csi::NodeInfoChange& node,
                            Clock::time_point now) {
  const PluginRecord& plugin = change.now.record;
  if (!Take(plugin.uid, now)) {
    return;
  }
  if (node.node_id) {
    spdlog::error("plugin {}: {}", plugin.id,
                  csi::ConcernOf(change.before.node, change.now.node));
  }
  spdlog::info("plugin {}: its node information changed: {}", plugin.id,
               node.text);
}

bool PluginLog::Take(std::uint32_t uid, Clock::time_point now) {
  if (lines_.Take(uid, now) == LogBudget::Verdict::kLeaveOut) {
    return false;
  }
  if (const std::uint64_t left_out = lines_.TakeLeftOut(uid)) {
    spdlog::warn("uid {}: mountd left out {} lines of what plugins say", uid,
                 left_out);
  }
  return true;
}

}  // namespace mountd
