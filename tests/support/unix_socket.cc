// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/unix_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace mountd::test {

UniqueFd ListenAt(const std::string& path) {
  UniqueFd listening(
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  ::unlink(path.c_str());
  if (::bind(listening.get(), reinterpret_cast<const sockaddr*>(&address),
             sizeof(address)) != 0 ||
      ::chmod(path.c_str(), 0666) != 0 ||
      ::listen(listening.get(), SOMAXCONN) != 0) {
    std::abort();
  }
  return listening;
}

}  // namespace mountd::test
