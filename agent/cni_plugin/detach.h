// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>

#include "agent/client.h"
#include "agent/cni_plugin/config.h"
#include "mountd/base/result.h"

namespace mountd::cni_plugin {

// DEL: takes the interface away, and the allocation with the last one. What is
// not there is success. `name` is the network configuration's.
Result<void> Detach(agent::Client& client, const std::string& allocation,
                    const std::string& ifname, const std::string& name);

// Releases what is left without a network: after Detach's first step, and where
// an ADD failed. An interface that is there is left alone.
Result<void> Tidy(agent::Client& client, const std::string& allocation,
                  const std::string& ifname, const std::string& name);

// The status; nothing of an allocation that mountd does not know.
Result<std::optional<agent::AllocationStatus>> FindAllocation(
    agent::Client& client, const std::string& allocation);

// ReleaseAllocation; success where there is no such allocation.
Result<void> Release(agent::Client& client, const std::string& allocation);

// GC: detaches what was attached for this network configuration, by this user,
// and is not in config.valid_attachments. Goes on after an error, and answers
// the first one.
Result<void> CollectGarbage(agent::Client& client, const Config& config);

}  // namespace mountd::cni_plugin
