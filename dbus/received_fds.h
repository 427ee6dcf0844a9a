// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/socket.h>

#include "mountd/base/result.h"

// close(2) of an open file can wait for whoever serves it: FUSE and NFS flush
// first, a socket may linger. A peer can send any fd with any message, and who
// then closes it is sd-bus, on the loop's thread. So recvmsg(2) is defined here
// for all that this program links, libsystemd above all: what it hands on
// closes at once.
namespace mountd::dbus {

// Puts another fd, an eventfd, in the place of each that came with `message`
// and could wait to be closed; those are closed by threads of their own. Kept
// are fds of O_PATH, directories, memfds, processes, pipes, Unix sockets, what
// has no file system, and whatever root sends.
void ReplaceSlowFds(int socket, msghdr* message);

// Internal unless it is this recvmsg(2) that other libraries find. To be called
// at the start: it also makes a linker take it that has another one already, of
// a sanitizer.
Result<void> CheckReceives();

}  // namespace mountd::dbus
