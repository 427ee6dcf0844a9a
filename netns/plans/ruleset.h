// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/config/config.h"
#include "netns/events/ruleset_names.h"
#include "netns/plans/netlink.h"

namespace mountd::netns {

// The text of mountd's table for nft(8), for these address ranges. The table's
// set `version` has this number. Loading the text keeps the elements and the
// chain `admin`, which belongs to the operator.
struct Ruleset {
  std::uint32_t version = 0;
  std::string commands;
};
Ruleset RulesetFor(const Config& config);

// Loads the ruleset unless this version is loaded already. If the last argument
// is true, always loads it.
Result<void> PrepareRuleset(exec::Kernel& kernel, Channel* nft,
                            const Config& config, bool anew);

}  // namespace mountd::netns
