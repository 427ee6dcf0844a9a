// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <map>
#include <string>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::agent {

// A memfd holding key, NUL, value, NUL, and so on, sealed against everything
// (F_SEAL_SEAL, SHRINK, GROW, WRITE; memfd_create(2), Linux 3.17), its offset
// at 0. Makes no copy of its own in memory. InvalidArgument, which never says
// what the secret is, if a key is empty or anything holds a NUL.
Result<UniqueFd> SealSecrets(const std::map<std::string, std::string>& secrets);

}  // namespace mountd::agent
