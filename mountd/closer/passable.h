// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

namespace mountd::closer {

// Whether mountd may have this fd, which somebody else made, in its own table:
// then close(2) of one that is not the last does not wait. A file of FUSE or
// NFS waits at each close(2), as each flushes it. True for what methods of the
// API take:
//   - O_PATH fds and directories, which have nothing to flush,
//   - processes (pidfds, directories of /proc) and network namespaces,
//   - sealed memfds of at most 1 MiB.
// Never waits for a file system's server.
bool IsPassable(int fd);

}  // namespace mountd::closer
