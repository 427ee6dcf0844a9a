// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "agent/client.h"
#include "tests/root/soak_model.h"

namespace mountd::testing {

// One operation of a soak, by the client library.
Result<void> Call(agent::Client& client, const SoakOperation& operation);

// Whether the outcome says that the same call has to be made again: somebody
// was killed, or stood still, meanwhile.
bool IsForNow(const Result<void>& result);

// "" if mountd says and the kernel shows that just `model` is there; else what
// differs. Looked at once: what is on its way differs, too.
std::string DifferenceFrom(const SoakModel& model, agent::Client& client);

}  // namespace mountd::testing
