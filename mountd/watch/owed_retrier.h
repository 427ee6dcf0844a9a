// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <functional>

#include "mountd/base/retry_rounds.h"
#include "mountd/service/node_verbs.h"
#include "mountd/watch/owed_watch.h"

namespace mountd {

// Retries pending tear-downs on their objects' strands, after each failed call
// and when a plugin is back. The store holds them, so a restart forgets none.
// Reports the pending tear-downs to `on_look` on the loop's thread, each time
// after looking.
class OwedRetrier final : public RetryRounds {
 public:
  OwedRetrier(Loop& loop, Strands& strands, NodeVerbs& node,
              std::function<void(const OwedSummary&)> on_look);
};

// Repeats calls with an unknown outcome, with the same arguments, until the
// plugin's answer is final. Knows only this process's calls. After a restart
// the plugin's return makes mountd look at its volumes.
class VolumeSettler final : public RetryRounds {
 public:
  VolumeSettler(Loop& loop, Strands& strands, csi::Volumes& volumes);
};

}  // namespace mountd
