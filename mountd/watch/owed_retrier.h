// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <functional>

#include "mountd/base/retry_rounds.h"
#include "mountd/service/node_verbs.h"
#include "mountd/watch/owed_watch.h"

namespace mountd {

// Retries pending tear-downs on their objects' strands, after each failed call
// and when a plugin answers again. The store keeps pending tear-downs, so a
// restart forgets none. After each look at them, reports them to `on_look` on
// the loop's thread.
class OwedRetrier final : public RetryRounds {
 public:
  OwedRetrier(Loop& loop, Strands& strands, NodeVerbs& node,
              std::function<void(const OwedSummary&)> on_look);
};

// Repeats calls of a plugin whose outcome is unknown, with the same arguments,
// until the plugin's answer is final. Knows only calls of this process. After a
// restart mountd looks at a plugin's volumes when the plugin answers again.
class VolumeSettler final : public RetryRounds {
 public:
  VolumeSettler(Loop& loop, Strands& strands, csi::Volumes& volumes);
};

}  // namespace mountd
