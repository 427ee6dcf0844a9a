// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <toml++/toml.h>

#include <vector>

#include "mountd/base/result.h"
#include "mountd/config/config.h"
#include "mountd/config/config_reader.h"

namespace mountd {

// Reads the [[rule]] tables of `root`, in their order.
Result<void> ReadRules(const ConfigReader& reader, const toml::table& root,
                       std::vector<RuleConfig>& rules);

}  // namespace mountd
