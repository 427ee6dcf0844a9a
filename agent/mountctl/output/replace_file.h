// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>

#include "mountd/base/result.h"

namespace mountd::agent {

// Replaces the file's content by this text, and lets anybody read the file. No
// reader ever sees a part of the text, or an empty file. Leaves nothing behind
// on an error. Does not sync to the disk, because readers only want the newest
// text.
Result<void> ReplaceFile(const std::string& path, std::string_view text);

}  // namespace mountd::agent
