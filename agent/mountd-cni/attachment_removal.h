// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>

#include "agent/client.h"
#include "agent/mountd-cni/config.h"
#include "mountd/base/result.h"

namespace mountd::cni_plugin {

// Carries out DEL: removes the interface, and with the last interface the
// allocation. Keeps an allocation with volumes or mounts, because another
// agent, such as a task driver, made these and releases the allocation later. A
// runtime ends a container's network before its volumes. Ok if there is no such
// interface. `name` is the name of the network configuration.
Result<void> Detach(agent::Client& client, const std::string& allocation,
                    const std::string& ifname, const std::string& name);

// Removes all networks of the allocation, and then the allocation as Detach
// does.
Result<void> DetachAll(agent::Client& client, const std::string& allocation);

// Releases the marker and the allocation if they have no network left. Called
// after Detach has removed the interface, and after a failed ADD. Keeps an
// interface that is there.
Result<void> Tidy(agent::Client& client, const std::string& allocation,
                  const std::string& ifname, const std::string& name);

// Returns the status, or nothing if mountd does not know the allocation.
Result<std::optional<agent::AllocationStatus>> FindAllocation(
    agent::Client& client, const std::string& allocation);

// Calls ReleaseAllocation. Ok if there is no such allocation.
Result<void> Release(agent::Client& client, const std::string& allocation);

// Carries out GC: detaches all attachments of this network configuration and
// this user that are not in config.valid_attachments. Continues after an error,
// and returns the first error.
Result<void> CollectGarbage(agent::Client& client, const Config& config);

}  // namespace mountd::cni_plugin
