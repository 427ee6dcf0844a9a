// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/context.h"

namespace mountd::propagation {

// Cuts the connection of the FUSE file system that is mounted at (dir, name) as
// `mount_id`: whatever waits for its server gets ENOTCONN, in every mount of
// it. Asks the server nothing. NotSupported of another file system, with its
// type. Source: Documentation/filesystems/fuse.rst, "Aborting a filesystem
// connection".
Result<void> AbortConnection(const Context& context, int dir,
                             const std::string& name, std::uint64_t mount_id,
                             const std::string& object);

}  // namespace mountd::propagation
