// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <string>

#include "mountd/base/result.h"

namespace mountd {

// Checks `from` as LoadConfig does, and replaces `to` by the checked text.
// mountd and its executors read this copy, because an administrator's file may
// be wrong while somebody edits it. mountd.service makes the copy before each
// start and at each reload.
//
// A process that opens `to` finds all of the old text or all of the new text.
// `to` belongs to root, and `readers` can read it even if they cannot read
// `from`, because mountd must be able to read its copy. `to` lies in a
// directory that only root can write to. One process at a time may call this
// function.
//
// On an error `to` stays unchanged. FailedPrecondition if `from` moves the base
// to another mount namespace while the base is used.
Result<void> AcceptConfig(const std::string& from, const std::string& to,
                          gid_t readers);

}  // namespace mountd
