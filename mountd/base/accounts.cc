// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/accounts.h"

#include <grp.h>
#include <pwd.h>

#include <optional>

#include "mountd/base/number.h"

namespace mountd {

Result<uid_t> FindUser(const std::string& user) {
  if (const std::optional<uid_t> uid = ParseNumber<uid_t>(user)) {
    return *uid;
  }
  const passwd* entry = ::getpwnam(user.c_str());
  if (entry == nullptr) {
    return MakeError(Code::kNotFound, "find", user, "no such user");
  }
  return entry->pw_uid;
}

Result<gid_t> FindGroup(const std::string& group) {
  if (const std::optional<gid_t> gid = ParseNumber<gid_t>(group)) {
    return *gid;
  }
  const ::group* entry = ::getgrnam(group.c_str());
  if (entry == nullptr) {
    return MakeError(Code::kNotFound, "find", group, "no such group");
  }
  return entry->gr_gid;
}

}  // namespace mountd
