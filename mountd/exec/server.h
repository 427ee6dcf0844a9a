// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <chrono>

#include "mountd/exec/dispatcher.h"

namespace mountd::exec {

// PermissionDenied unless the peer of the connected Unix socket has this uid.
Result<void> CheckPeer(int socket, uid_t allowed);

// How long a request may take; 0: for ever.
struct Longest {
  std::chrono::seconds plan{0};
  std::chrono::seconds cni{0};  // kRunCni
};

// Answers requests on a connected SOCK_SEQPACKET socket, one after the other,
// until the peer closes it. Fails if the socket does. A request whose sender
// has hung up is not begun, and what could not be answered is undone: mountd
// gave it up, and has no record of it.
//
// A request that takes longer than `longest` ends the process by SIGKILL: where
// only a fatal signal ends the wait for a file system's server, what is stuck
// goes while the server still hangs, and one that was stopped goes with what it
// has locked.
Result<void> Serve(int socket, Dispatcher* dispatcher,
                   const Longest& longest = {});

}  // namespace mountd::exec
