// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <functional>

#include "mountd/owed_watch.h"
#include "mountd/retry_rounds.h"
#include "mountd/service.h"

namespace mountd {

// Tries owed tear-downs again, on the strands of what they are of, after each
// failed call and when a plugin is back. Restarts do not forget: what is owed
// is in the store. `on_look` is told on the loop what is owed, each time that
// it was looked at.
class OwedRetrier final : public RetryRounds {
 public:
  OwedRetrier(Loop& loop, Strands& strands, Service& service,
              std::function<void(const OwedSummary&)> on_look);
};

// Makes the calls again whose outcome is not known, with the same arguments,
// until the plugin's answer is final. They are this process's: after a restart
// it is the plugin's return that has its volumes looked at.
class VolumeSettler final : public RetryRounds {
 public:
  VolumeSettler(Loop& loop, Strands& strands, csi::Volumes& volumes);
};

}  // namespace mountd
