// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "csi-node/types/csi_client.h"
#include "csi-node/types/secrets.h"

namespace mountd::csi {

// Returns the texts that no text about a request may show: every secret's
// value, every mount flag, and a flag's value ("password=x": "x" too), except
// flags that only name a mount attribute. The results are views into the
// arguments.
std::vector<std::string_view> HiddenTexts(
    const Secrets& secrets, const std::vector<std::string>& mount_flags);

// Returns a plugin's text as it may leave this process. Removes each byte that
// belongs to an occurrence of a hidden text, and puts "[REDACTED]" for every
// run of them. Then removes control characters, makes the text valid UTF-8, and
// cuts it to 1 KiB.
std::string Scrub(std::string_view text,
                  const std::vector<std::string_view>& hidden);

}  // namespace mountd::csi
