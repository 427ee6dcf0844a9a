// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <string>

#include "mountd/base/result.h"

// Users and groups by name or by number (getpwnam(3), getgrnam(3): not
// reentrant, so for one thread at a time). NotFound if there is none.
namespace mountd {

Result<uid_t> FindUser(const std::string& user);
Result<gid_t> FindGroup(const std::string& group);

}  // namespace mountd
