// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/received_fds.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>

#include "dbus/passed_fd.h"
#include "mountd/base/unique_fd.h"

namespace mountd::dbus {
namespace {

// More stay open: the daemon starts again before it has no more fds.
constexpr int kMostClosing = 16;
std::atomic<int> g_closing = 0;

// None of these questions waits; an ioctl(2) would.
bool IsUnixSocket(int fd) {
  int domain = 0;
  socklen_t size = sizeof(domain);
  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
         domain == AF_UNIX;
}

bool ClosesAtOnce(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  const std::optional<PassedFile> file = LookAt(fd);
  if (flags < 0 || !file) {
    return false;
  }
  if ((flags & O_PATH) != 0 || file->mode == 0 || S_ISDIR(file->mode) ||
      S_ISFIFO(file->mode) || IsUnixSocket(fd)) {
    return true;
  }
  return S_ISREG(file->mode) &&
         (fcntl(fd, F_GET_SEALS) >= 0 || IsProcess(fd) || IsNetNamespace(fd));
}

void CloseElsewhere(int fd) {
  if (++g_closing > kMostClosing) {
    --g_closing;
    return;
  }
  try {
    std::thread([fd] {
      ::close(fd);
      --g_closing;
    }).detach();
  } catch (const std::system_error&) {
    --g_closing;
  }
}

bool IsRootPeer(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         size == sizeof(peer) && peer.uid == 0;
}

void ReplaceSlowFds(cmsghdr* rights) {
  const std::size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (std::size_t i = 0; i < count; ++i) {
    unsigned char* const place = CMSG_DATA(rights) + i * sizeof(int);
    int fd = -1;
    std::memcpy(&fd, place, sizeof(fd));
    if (ClosesAtOnce(fd)) {
      continue;
    }
    // Without any fd left it stays: who receives it will fail soon.
    const int instead = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (instead >= 0) {
      std::memcpy(place, &instead, sizeof(instead));
      CloseElsewhere(fd);
    }
  }
}

}  // namespace

void ReplaceSlowFds(int socket, msghdr* message) {
  for (cmsghdr* header = CMSG_FIRSTHDR(message); header != nullptr;
       header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
        !IsRootPeer(socket)) {
      ReplaceSlowFds(header);
    }
  }
}

Result<void> CheckReceives() {
  return dlsym(RTLD_DEFAULT, "recvmsg") == reinterpret_cast<void*>(&recvmsg)
             ? Ok()
             : Result<void>(MakeError(Code::kInternal, "link", "recvmsg",
                                      "libraries find another one"));
}

}  // namespace mountd::dbus

extern "C" ssize_t recvmsg(int socket, msghdr* message, int flags) {
  const ssize_t received = syscall(SYS_recvmsg, socket, message, flags);
  if (received >= 0 && (flags & MSG_PEEK) == 0) {
    const int saved = errno;
    mountd::dbus::ReplaceSlowFds(socket, message);
    errno = saved;
  }
  return received;
}
