// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/accounts.h"

#include <grp.h>
#include <pwd.h>

#include <optional>

#include "mountd/base/number.h"

namespace mountd {
namespace {

// chown(2) reads this id as "leave it unchanged", so it belongs to no user and
// no group.
constexpr std::uint32_t kNobodysId = UINT32_MAX;

Error NoId(const std::string& text) {
  return MakeError(Code::kInvalidArgument, "find", text,
                   "is neither a name nor a numeric id");
}

// getpwnam(3) and getgrnam(3) would stop at a NUL and look up a shorter name.
bool HasNul(const std::string& text) {
  return text.find('\0') != std::string::npos;
}

}  // namespace

Result<uid_t> FindUser(const std::string& user) {
  if (const std::optional<uid_t> uid = ParseNumber<uid_t>(user)) {
    return *uid == kNobodysId ? Result<uid_t>(NoId(user)) : *uid;
  }
  const passwd* entry = HasNul(user) ? nullptr : ::getpwnam(user.c_str());
  if (entry == nullptr) {
    return MakeError(Code::kNotFound, "find", user, "no such user");
  }
  return entry->pw_uid;
}

Result<gid_t> FindGroup(const std::string& group) {
  if (const std::optional<gid_t> gid = ParseNumber<gid_t>(group)) {
    return *gid == kNobodysId ? Result<gid_t>(NoId(group)) : *gid;
  }
  const ::group* entry = HasNul(group) ? nullptr : ::getgrnam(group.c_str());
  if (entry == nullptr) {
    return MakeError(Code::kNotFound, "find", group, "no such group");
  }
  return entry->gr_gid;
}

}  // namespace mountd
