// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"

namespace mountd::driver {

// Ids of a task's user, as the task's user namespace counts them.
struct TaskUser {
  uid_t uid = 0;
  gid_t gid = 0;
  // The groups of /etc/group that name the user; empty if `user` has a group.
  std::vector<gid_t> additional_gids;
  std::string name;        // "" if /etc/passwd has no such user
  std::string home = "/";  // for HOME

  bool operator==(const TaskUser&) const = default;
};

// Resolves `user` against /etc/passwd and /etc/group of the root file system
// `rootfs`, a directory's fd. `user` is "", "name", "uid", "name:group",
// "uid:group", "name:gid" or "uid:gid" (OCI image-spec, config.md: "User"). ""
// is uid 0. A text of digits is always an id. An id that /etc/passwd does not
// have gets group 0, as with runc and the callers of crun. Malformed lines do
// not count.
//
// Reads no file outside of `rootfs`, whatever links it has. NotFound if the
// files have no such name. InvalidArgument if `user` is malformed, an id is
// above 2147483647, or a file is no regular file or larger than 1 MiB.
Result<TaskUser> ResolveUser(int rootfs, std::string_view user);

}  // namespace mountd::driver
