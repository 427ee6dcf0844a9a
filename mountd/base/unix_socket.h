// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

namespace mountd {

// Connects an AF_UNIX socket to the one at `path` by connect(2). Returns 0 or
// the errno. ENAMETOOLONG if no socket address can hold the path. EAGAIN if the
// backlog is full and the socket is non-blocking or its SO_SNDTIMEO is over
// (unix(7)).
int ConnectUnix(int socket, const std::string& path);

}  // namespace mountd
