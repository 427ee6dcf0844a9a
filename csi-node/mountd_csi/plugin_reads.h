// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include "mountd/base/result.h"

// gRPC reads a plugin's socket without room for fds: the kernel then closes
// those that the plugin sent, on the thread that reads. One file of a FUSE
// server that does not answer would hold up the calls of all plugins, and
// mountd-csi could not be ended. No plugin has a use for that. So recvmsg(2) is
// defined here for all that this program links: a read that would bring fds
// fails.
namespace mountd::csi {

// Reads like recvmsg(2) without control data, but only bytes that come without
// fds; does not wait. ECONNRESET if fds come with the next bytes: they stay
// where they are.
ssize_t ReadWithoutFds(int socket, msghdr* message, int flags);

// To be told of each plugin's socket. Where the kernel refuses what a plugin
// sends with fds (SO_PASSRIGHTS off, Linux 6.16), reads need not look.
void NotePluginSocket(int socket);

// Internal unless it is this recvmsg(2) that other libraries find.
Result<void> CheckReads();

}  // namespace mountd::csi
