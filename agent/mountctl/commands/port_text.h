// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>

#include "agent/types_networks.h"
#include "mountd/base/result.h"

namespace mountd::agent {

// The form of a port on the command line.
inline constexpr char kPortForm[] =
    "[LABEL=][ADDRESS:]HOST[:CONTAINER][/PROTOCOLS]";

// Parses a port such as "http=8080:80/tcp+udp?" or "[::]:8080". InvalidArgument
// if the text has another form.
Result<Port> ParsePort(std::string_view text);

}  // namespace mountd::agent
