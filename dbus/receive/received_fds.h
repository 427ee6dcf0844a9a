// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/base/result.h"

// Defines recvmsg(2) for all that this program links, libsystemd above all. A
// peer can send any fd with any message, and sd-bus would receive it and close
// it on the loop's thread. close(2) of a file of FUSE or NFS waits, unkillably,
// for the file system's server. So on a socket that has an Inbound,
// mountd-closer alone receives fds.
//
// Defines reallocarray(3), too, because sd-bus loses the array of a malformed
// message's fds (Inbound), and gives no other way to find that array.
namespace mountd::dbus {

// Internal if other libraries find another recvmsg(2) than this one. Call at
// the start. The call also makes the linker take this recvmsg(2) where a
// sanitizer brings another.
Result<void> CheckReceives();

}  // namespace mountd::dbus
