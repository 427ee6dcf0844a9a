// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <string>

#include "mountd/base/result.h"

// Finds users and groups by name or by number. NotFound if there is none,
// InvalidArgument for the number that chown(2) reads as "unchanged". One thread
// at a time, because getpwnam(3) and getgrnam(3) are not reentrant.
namespace mountd {

Result<uid_t> FindUser(const std::string& user);
Result<gid_t> FindGroup(const std::string& group);

}  // namespace mountd
