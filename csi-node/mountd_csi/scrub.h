// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "csi-node/csi_client.h"
#include "csi-node/secrets.h"

namespace mountd::csi {

// What no text about a request may show: every secret's value, and every mount
// flag and a flag's value ("password=x": "x" too), but for the flags that only
// name a mount attribute. Views into the arguments.
std::vector<std::string_view> HiddenTexts(
    const Secrets& secrets, const std::vector<std::string>& mount_flags);

// A plugin's text as it may leave this process: each byte that belongs to an
// occurrence of a hidden text is gone, every run of them replaced by
// "[REDACTED]"; then without control characters, valid UTF-8, at most 1 KiB.
std::string Scrub(std::string_view text,
                  const std::vector<std::string_view>& hidden);

}  // namespace mountd::csi
