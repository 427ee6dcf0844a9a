// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

namespace mountd {

// connect(2) of an AF_UNIX socket to the one at `path`: 0, or the errno.
// ENAMETOOLONG for a path that no address holds; EAGAIN where the socket is
// non-blocking, or its SO_SNDTIMEO is over, and the backlog full (unix(7)).
int ConnectUnix(int socket, const std::string& path);

}  // namespace mountd
