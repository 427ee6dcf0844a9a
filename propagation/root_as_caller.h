// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "propagation/source.h"

// Checks of a source that shows root's files as the caller's (exec::ShowsRoot).
// The caller can make setuid programs of root and file capabilities on such a
// source's disk. So the checks make sure that these have no effect where this
// node mounts the source.
namespace mountd::propagation {

// Checks a host volume before it is anchored. FailedPrecondition unless the
// host's own mount of it is nosuid and nodev. NotSupported in a mount namespace
// of mountd's own, where the flags of the host's mount do not show.
Result<void> CheckRootsHostVolume(const Context& context, const Source& source,
                                  const std::string& object);

}  // namespace mountd::propagation
