// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <string>

#include "mountd/base/result.h"

namespace mountd {

// An administrator's file may be wrong at any moment while it is written. The
// daemon and its executors read a copy that was right when it was made
// (mountd.service: before each start, and at each reload).
//
// Checks `from` as LoadConfig does, and puts what was checked in the place of
// `to`: whoever opens `to` finds all of the old or all of the new. It is
// root's, and `readers` can read it, whoever can read `from`: a copy that
// mountd cannot read would be as bad as one that is wrong. On an error `to` is
// as it was; so it is while mountd's tree is used and `from` wants it in
// another mount namespace (FailedPrecondition). `to` lies in a directory that
// is root's alone. For one process at a time.
Result<void> AcceptConfig(const std::string& from, const std::string& to,
                          gid_t readers);

}  // namespace mountd
