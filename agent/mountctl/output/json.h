// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "agent/fields/lease_fields.h"
#include "agent/fields/node_fields.h"
#include "agent/mountctl/output/json_fields.h"
#include "agent/mountctl/output/snapshot_message.h"

// Builds the output of --json, with the contract's own names as keys. Bytes
// that are not UTF-8 (paths may hold any) become U+FFFD.
namespace mountd::agent {

// Adds how long the tear-down is pending.
Json ToJson(const OwedTeardown& owed);
// Adds whether the plugin needs its controller.
Json ToJson(const PluginStatus& plugin);
// Leave the condition out if the plugin reports none.
Json ToJson(const VolumeStats& stats);
Json ToJson(const PluginVolume& volume);
Json ToJson(const StagedVolume& volume);
Json ToJson(const Snapshot& snapshot);

// Leave out names that the call did not have, and an empty list of spans.
Json ToJson(const OperationStatus& operation);
Json ToJson(const Receipt& receipt);
Json ToJson(const Lease& lease);
Json ToJson(const Fence& fence);
Json ToJson(const LeaseChange& change);

std::string Dump(const Json& json, int indent = 2);

}  // namespace mountd::agent
