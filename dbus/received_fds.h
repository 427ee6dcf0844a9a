// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/base/result.h"

// A peer can send any fd with any message, and sd-bus would receive it and
// close it on the loop's thread. close(2) of a file of FUSE or NFS waits,
// unkillably, for its server. So recvmsg(2) is defined here for all that this
// program links, libsystemd above all: of a socket that has an Inbound no fd is
// received but by mountd-closer.
//
// reallocarray(3) is defined here, too, because sd-bus loses the array of a
// malformed message's fds (Inbound), and tells nobody where it is.
namespace mountd::dbus {

// Internal unless it is this recvmsg(2) that other libraries find. To be called
// at the start: it also makes a linker take it that has another one already, of
// a sanitizer.
Result<void> CheckReceives();

}  // namespace mountd::dbus
