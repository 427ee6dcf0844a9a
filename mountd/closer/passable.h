// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

namespace mountd::closer {

// Returns whether mountd may have this fd of another process in its own table.
// close(2) of a file of FUSE or NFS may wait even if it is not the last close,
// because each close flushes. True for the fds that methods of the API take:
//   - O_PATH fds and directories, which have nothing to flush,
//   - processes (pidfds, directories of /proc) and network namespaces,
//   - sealed memfds of at most 1 MiB,
//   - read ends of pipes. A write end would keep a lease's pipe alive.
// Never waits for a file system's server.
bool IsPassable(int fd);

}  // namespace mountd::closer
