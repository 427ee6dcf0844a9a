// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <vector>

#include "netns/cni/context.h"
#include "netns/cni/documents/json.h"
#include "netns/cni/documents/plugin_error.h"
#include "netns/cni/documents/request.h"
#include "netns/cni/record.h"
#include "netns/cni/state_dir.h"

// Run ADD, CHECK and DEL of one attachment; each returns the document for
// stdout.
namespace mountd::cni {

Json Add(const Context& context, const Request& request);
Json Check(const Context& context, const Request& request);
Json Del(const Context& context, const Request& request);

// Runs DEL of the first `count` plugins, in the namespace if that is still the
// one of ADD. Removes the record if all of them succeed. Returns the failures.
// The caller holds the attachment's lock.
std::vector<PluginError> Detach(const Context& context, const StateDir& state,
                                const Record& record, std::size_t count,
                                const Deadline& deadline);

}  // namespace mountd::cni
