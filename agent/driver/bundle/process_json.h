// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "agent/driver/bundle/process.h"

namespace mountd::driver {

// Returns the process as an object of the OCI configuration, checked.
Result<nlohmann::json> ProcessJson(const ContainerProcess& process);

// Returns the document as text. All texts in `document` passed CheckText, so
// the JSON library finds no invalid UTF-8.
std::string FileText(const nlohmann::json& document);

}  // namespace mountd::driver
