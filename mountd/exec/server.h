// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <chrono>

#include "mountd/exec/dispatcher.h"

namespace mountd::exec {

// PermissionDenied unless the peer of the connected Unix socket has this uid.
Result<void> CheckPeer(int socket, uid_t allowed);

// An executor without a request rests for so long, and then gives up a part of
// what it made ahead.
inline constexpr std::chrono::seconds kRest{30};

// The longest time for a request; 0: no limit.
struct Longest {
  std::chrono::seconds plan{0};
  std::chrono::seconds cni{0};  // kRunCni
  // From one request to the next. An executor that rests begins this time again
  // after each kRest.
  std::chrono::seconds idle{0};
};

// Answers requests on a connected SOCK_SEQPACKET socket, one after the other,
// until the peer closes it. Fails if the socket fails. Does not begin a request
// whose sender has hung up, and undoes one whose answer cannot be sent, because
// mountd has given it up and has no record of it.
//
// Ends the process by SIGKILL if a request takes longer than `longest`. A
// process that waits for a file system's server, where only a fatal signal ends
// the wait, then ends while the server still hangs. A stopped process ends too,
// and with it its locks, also if it was stopped just before it set the
// request's limit.
Result<void> Serve(int socket, Dispatcher* dispatcher,
                   const Longest& longest = {});

}  // namespace mountd::exec
