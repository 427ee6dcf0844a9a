// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <map>
#include <string>

namespace mountd {

using StringMap = std::map<std::string, std::string>;

}  // namespace mountd
