// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/user_groups.h"

#include <cerrno>
#include <string>
#include <utility>

namespace mountd {
namespace {

// The most bytes for one entry of the user database. A longer entry is a
// mistake.
constexpr std::size_t kLongestEntry = std::size_t{1} << 20U;

Error NoAnswer(int err, uid_t uid) {
  Error error = ErrnoError(err, "find", "groups of uid " + std::to_string(uid),
                           "the user database does not answer; call again");
  error.code = Code::kUnavailable;
  return error;
}

}  // namespace

Result<UserGroups> GroupsOf(uid_t uid, const UserDatabase& database) {
  std::vector<char> buffer(4096);
  passwd entry{};
  passwd* found = nullptr;
  int err = 0;
  while ((err = database.entry(uid, &entry, buffer.data(), buffer.size(),
                               &found)) == ERANGE &&
         buffer.size() < kLongestEntry) {
    buffer.resize(2 * buffer.size());
  }
  UserGroups groups;
  if (found == nullptr) {
    // Modules of the database report an unknown user by one of these
    // (getpwuid_r(3), "ERRORS").
    if (err == 0 || err == ENOENT || err == ESRCH || err == EBADF ||
        err == EPERM) {
      return groups;
    }
    return NoAnswer(err, uid);
  }
  groups.primary = entry.pw_gid;
  groups.all.resize(64);
  int count = static_cast<int>(groups.all.size());
  // If the array is too small, `count` becomes the number of groups. If memory
  // is short, glibc leaves `count` unchanged. Then elements that glibc did not
  // write would be 0, root's group.
  while (database.groups(entry.pw_name, entry.pw_gid, groups.all.data(),
                         &count) < 0) {
    if (std::cmp_less_equal(count, groups.all.size())) {
      return NoAnswer(ENOMEM, uid);
    }
    groups.all.resize(static_cast<std::size_t>(count));
  }
  groups.all.resize(static_cast<std::size_t>(count));
  return groups;
}

}  // namespace mountd
