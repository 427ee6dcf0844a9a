// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/ground/context.h"

namespace mountd::propagation {

// Aborts the connection of the FUSE file system of the mount `mount_id`: every
// process that waits for its server gets ENOTCONN, in every mount of the file
// system. Asks the server nothing. Takes no name, because another file system
// may be mounted there by now. NotSupported for any other file system; the
// error names its type. Source: Documentation/filesystems/fuse.rst, "Aborting a
// filesystem connection".
Result<void> AbortConnection(const Context& context, std::uint64_t mount_id,
                             const std::string& object);

}  // namespace mountd::propagation
