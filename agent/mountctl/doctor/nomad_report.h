// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <vector>

#include "agent/client.h"
#include "agent/mountctl/doctor/nomad_facts.h"

namespace mountd::agent {

// Makes all checks of a Nomad client whose user is the caller. `client` is null
// if mountd does not answer; the checks of rules are left out then.
std::vector<Check> CheckNomadClient(const NomadPlaces& places,
                                    const Result<NomadUnit>& unit,
                                    Client* client);

}  // namespace mountd::agent
