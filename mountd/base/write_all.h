// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>

#include "mountd/base/result.h"

namespace mountd {

// Repeats write(2) until all bytes are written. Waits if a non-blocking fd is
// full, because another program may have made a shared terminal non-blocking.
// `object` names the file in an error.
Result<void> WriteAll(int fd, std::string_view bytes,
                      const std::string& object);

}  // namespace mountd
