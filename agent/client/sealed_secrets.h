// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <map>
#include <string>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::agent {

// Returns a memfd with key, NUL, value, NUL, and so on, its offset at 0 and
// with all seals (F_SEAL_SEAL, SHRINK, GROW, WRITE; memfd_create(2), Linux
// 3.17). Makes no other copy in memory. InvalidArgument if a key is empty or a
// text holds a NUL; the error never contains the secret.
Result<UniqueFd> SealSecrets(const std::map<std::string, std::string>& secrets);

}  // namespace mountd::agent
