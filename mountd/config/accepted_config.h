// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <string>

#include "mountd/base/result.h"

namespace mountd {

// mountd and its executors read a copy of the configuration that was right when
// it was made, because an administrator's file may be wrong at any moment while
// it is edited. mountd.service makes the copy before each start and at each
// reload.
//
// Checks `from` as LoadConfig does, and replaces `to` by the checked text. A
// process that opens `to` finds all of the old text or all of the new. `to`
// belongs to root, and `readers` can read it even if they cannot read `from`,
// because a copy that mountd cannot read would be as bad as a wrong one. `to`
// lies in a directory that only root can write to. One process at a time.
//
// `to` stays unchanged on an error. FailedPrecondition if `from` moves mountd's
// tree to another mount namespace while the tree is used.
Result<void> AcceptConfig(const std::string& from, const std::string& to,
                          gid_t readers);

}  // namespace mountd
