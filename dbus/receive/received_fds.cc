// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/receive/received_fds.h"

#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "dbus/receive/inbound.h"

namespace mountd::dbus {

Result<void> CheckReceives() {
  return dlsym(RTLD_DEFAULT, "recvmsg") == reinterpret_cast<void*>(&recvmsg)
             ? Ok()
             : Result<void>(
                   MakeError(Code::kInternal, "link", "recvmsg",
                             "libraries use another recvmsg than mountd's, so "
                             "received descriptors are not counted"));
}

}  // namespace mountd::dbus

extern "C" ssize_t recvmsg(int socket, msghdr* message, int flags) {
  mountd::dbus::Inbound* const inbound = mountd::dbus::FindInbound(socket);
  return inbound != nullptr ? inbound->Receive(message, flags)
                            : syscall(SYS_recvmsg, socket, message, flags);
}

extern "C" void* reallocarray(void* array, std::size_t count,
                              std::size_t size) noexcept {
  std::size_t bytes = 0;
  // Fails as reallocarray(3) does.
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  void* const made = std::realloc(array, bytes);
  mountd::dbus::NoteArray(made, count, size);
  return made;
}
