// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>

#include "mountd/base/result.h"

namespace mountd::agent {

// The file has this text, and anybody may read it; at no moment is a part of
// the text there, or nothing. Nothing is left behind on an error. It is not
// brought to the disk: whoever reads it wants the next one.
Result<void> ReplaceFile(const std::string& path, std::string_view text);

}  // namespace mountd::agent
