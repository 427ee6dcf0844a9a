// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "agent/client.h"
#include "tests/root/soak/soak_model.h"

namespace mountd::testing {

// Makes one operation of a soak by the client library.
Result<void> Call(agent::Client& client, const SoakOperation& operation);

// True if the same call has to be made again, because a process was killed or
// stopped meanwhile.
bool IsForNow(const Result<void>& result);

// Returns "" if mountd reports and the kernel shows exactly `model`; otherwise
// the differences. Looks once, so changes in progress are differences, too.
std::string DifferenceFrom(const SoakModel& model, agent::Client& client);

}  // namespace mountd::testing
