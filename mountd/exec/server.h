// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <chrono>

#include "mountd/exec/dispatcher.h"

namespace mountd::exec {

// PermissionDenied unless the peer of the connected Unix socket has this uid.
Result<void> CheckPeer(int socket, uid_t allowed);

// After this time without a request an executor rests: it gives up a part of
// the objects that it made in advance.
inline constexpr std::chrono::seconds kRest{30};

// The longest time for a request; 0: no limit.
struct Longest {
  std::chrono::seconds plan{0};
  std::chrono::seconds cni{0};  // kRunCni
  // The time from one request to the next. Begins again after each rest.
  std::chrono::seconds idle{0};
};

// Answers requests on a connected SOCK_SEQPACKET socket, one after the other,
// until the peer closes the socket. Fails if the socket fails. Does not begin a
// request whose sender has hung up. Undoes a plan whose answer cannot be sent,
// because mountd has given that plan up and has no record of it.
//
// Ends the process by SIGKILL if a request takes longer than `longest`. So it
// ends a process that waits for a file system's server, because a fatal signal
// ends that wait. SIGKILL also ends a stopped process, and frees that process's
// locks, even if the process was stopped just before it set the request's
// limit.
Result<void> Serve(int socket, Dispatcher* dispatcher,
                   const Longest& longest = {});

}  // namespace mountd::exec
