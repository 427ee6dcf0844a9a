// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/unix_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>

namespace mountd {

int ConnectUnix(int socket, const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return ENAMETOOLONG;
  }
  path.copy(&address.sun_path[0], path.size());
  const auto* generic =
      static_cast<const sockaddr*>(static_cast<const void*>(&address));
  return ::connect(socket, generic, sizeof(address)) == 0 ? 0 : errno;
}

}  // namespace mountd
