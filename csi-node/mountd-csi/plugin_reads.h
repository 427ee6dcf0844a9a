// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include "mountd/base/result.h"

// Defines recvmsg(2) for all that this program links, so that a read that would
// bring fds fails. gRPC reads a plugin's socket without room for fds, and the
// kernel then closes the plugin's fds on the thread that reads. One file of a
// FUSE server that does not answer would block the calls of all plugins, and
// nobody could end mountd-csi. No plugin has a reason to send fds.
namespace mountd::csi {

// Reads as recvmsg(2) does without control data, but only bytes that come
// without fds; does not wait. ECONNRESET if fds come with the next bytes, which
// stay unread.
ssize_t ReadWithoutFds(int socket, msghdr* message, int flags);

// Call for each plugin's socket. If the kernel refuses a plugin's messages with
// fds (SO_PASSRIGHTS off, Linux 6.16), reads need not look for fds.
void NotePluginSocket(int socket);

// Internal if other libraries find another recvmsg(2) than this one.
Result<void> CheckReads();

}  // namespace mountd::csi
