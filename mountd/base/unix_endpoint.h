// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>

#include "mountd/base/result.h"

namespace mountd {

// Returns the socket path of a server's address: "unix:///run/csi.sock",
// "unix:/run/csi.sock" or the path itself. InvalidArgument for any other text,
// or if the path is too long for a socket address.
Result<std::string> EndpointPath(std::string_view endpoint);

// Removes a socket at `path` that nobody listens on. AlreadyExists if somebody
// listens, or if the file is no socket.
Result<void> RemoveStaleSocket(const std::string& path);

}  // namespace mountd
