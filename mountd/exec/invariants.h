// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <span>

#include "mountd/config.h"
#include "mountd/exec/plan.h"

namespace mountd::exec {

// Decodes one received message. InvalidArgument for another size or version.
Result<Request> DecodeRequest(std::span<const std::byte> message);
// What it is to be decoded to, as it claims; kHello if it is too short for that.
PlanKind KindOf(std::span<const std::byte> message);

// Checks every field of the request's plan against what this executor may ever
// do, whoever asks: kinds and enumerations in range, no unknown flag bits,
// names and keys of their alphabets, addresses in the ranges of root's config
// and nobody else's, ports real, named once and granted by some rule. Pure;
// InvalidArgument names the field. A request that passed may be used without
// further checks of its form.
Result<void> CheckRequest(const Request& request, const Config& config);

// InvalidArgument unless just as many fds came as the plan takes.
Result<void> CheckFds(const Request& request, std::size_t count);

}  // namespace mountd::exec
