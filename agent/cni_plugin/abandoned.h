// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "agent/client.h"
#include "agent/cni_plugin/config.h"
#include "agent/cni_plugin/environment.h"
#include "agent/cni_plugin/links.h"
#include "mountd/base/result.h"

namespace mountd::cni_plugin {

// Removes attachments of this user that are in the way of an ADD which mountd
// has refused, because their DEL never came: the runtime called it while mountd
// was away, and does not call it again.
//
//   the same container and interface, in this namespace, set up otherwise: a
//     runtime adds no interface twice, so it believes the first one gone
//   the same container, in another namespace
//   another container in this namespace, or with a host port or an address that
//     is asked for
//
// An attachment of the last two kinds goes only if no process of the host is in
// its namespace (as mountd sees them), and nothing but mountd keeps that
// namespace (IsHeld); this namespace itself is kept by the runtime that calls.
//
// True if anything was removed: the same ADD may succeed now.
Result<bool> MakeRoom(agent::Client& client, const Environment& environment,
                      const Config& config, const Netns& netns);

}  // namespace mountd::cni_plugin
