// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <span>

#include "mountd/config/config.h"
#include "mountd/plan/message.h"

namespace mountd::exec {

// Copies one received message into `request`. Takes a pointer, because a
// returned Request would be copied two more times. InvalidArgument for another
// size or version.
Result<void> DecodeRequest(std::span<const std::byte> message,
                           Request* request);
// Returns the kind that the message claims; kHello if the message is too short.
PlanKind KindOf(std::span<const std::byte> message);
// Returns the trace that the message claims; zeros if the message has another
// size.
PlanTrace TraceOf(std::span<const std::byte> message);

// Checks every field of the request's plan against the executor's own limits,
// whoever sent the plan. Enumerations must be in range, flag bits known, names
// and keys of their alphabets, addresses in the ranges of root's config, ports
// valid and granted by some rule. Pure. InvalidArgument names the field. After
// this check no field needs another check of its form.
Result<void> CheckRequest(const Request& request, const Config& config);

// InvalidArgument unless the number of received fds is the number that the plan
// takes.
Result<void> CheckFds(const Request& request, std::size_t count);

}  // namespace mountd::exec
