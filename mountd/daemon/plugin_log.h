// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "csi-node/node/plugin_events.h"
#include "mountd/base/log_budget.h"
#include "mountd/store/records.h"

namespace mountd {

// Logs what plugins report about their volumes and this node. Bounds the lines
// of each user's plugins, because a plugin may report something new each time,
// and a user can make mountd ask each second.
//
// Runs on one thread.
class PluginLog {
 public:
  using Clock = LogBudget::Clock;

  void LogCondition(const VolumeRecord& volume,
                    const csi::VolumeCondition& condition,
                    Clock::time_point now = Clock::now());
  void LogNodeInfo(const csi::PluginChange& change,
                   const csi::NodeInfoChange& node,
                   Clock::time_point now = Clock::now());

 private:
  // Returns whether the user has a line left, and logs how many were left out.
  bool Take(std::uint32_t uid, Clock::time_point now);

  LogBudget lines_{{.burst = 20, .per_second = 0.5, .users = 10}};
};

}  // namespace mountd
