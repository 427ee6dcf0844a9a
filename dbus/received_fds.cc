// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/received_fds.h"

#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dbus/inbound.h"

namespace mountd::dbus {

Result<void> CheckReceives() {
  return dlsym(RTLD_DEFAULT, "recvmsg") == reinterpret_cast<void*>(&recvmsg)
             ? Ok()
             : Result<void>(MakeError(Code::kInternal, "link", "recvmsg",
                                      "libraries find another one"));
}

}  // namespace mountd::dbus

extern "C" ssize_t recvmsg(int socket, msghdr* message, int flags) {
  mountd::dbus::Inbound* const inbound = mountd::dbus::FindInbound(socket);
  return inbound != nullptr ? inbound->Receive(message, flags)
                            : syscall(SYS_recvmsg, socket, message, flags);
}
