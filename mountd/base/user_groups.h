// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <grp.h>
#include <pwd.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "mountd/base/result.h"

namespace mountd {

// The calls to the user database. Tests replace them.
struct UserDatabase {
  std::function<int(uid_t, passwd*, char*, std::size_t, passwd**)> entry =
      ::getpwuid_r;
  std::function<int(const char*, gid_t, gid_t*, int*)> groups = ::getgrouplist;
};

struct UserGroups {
  gid_t primary = UINT32_MAX;  // the id of no group: the user is unknown
  std::vector<gid_t> all;      // the primary group, too
};

// Returns the user's groups. An unknown user has none. Unavailable if the
// user's entry cannot be read now or memory is short, because rules may name a
// group of the user. Does not notice a module of the database that fails for
// groups alone, because getgrouplist(3) does not report that.
// Thread-safe. Sources: getpwuid_r(3), getgrouplist(3).
Result<UserGroups> GroupsOf(uid_t uid, const UserDatabase& database = {});

}  // namespace mountd
