// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>

namespace mountd::goplugin {

// RFC 4648, section 4, without the padding at the end.
std::string Base64WithoutPadding(std::string_view bytes);

}  // namespace mountd::goplugin
