// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "mountd/exec/real_kernel.h"

namespace mountd::exec {
namespace {

// Its namespace, to the parent; or an errno instead. Then it waits to be
// killed.
[[noreturn]] void EnterAndTell(int socket) {
  const int fd = ::unshare(CLONE_NEWUSER) == 0
                     ? ::open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC)
                     : -1;
  int err = fd < 0 ? errno : 0;
  iovec part = {&err, sizeof(err)};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(fd))> control{};
  if (fd >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(fd));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  }
  if (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    ::_exit(1);
  }
  for (;;) {
    ::pause();
  }
}

Sys<UniqueFd> ReceiveNamespace(int socket) {
  int err = 0;
  iovec part = {&err, sizeof(err)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t size = 0;
  do {
    size = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size < 0) {
    return errno;
  }
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr) {
    return size == sizeof(err) ? err : ECHILD;
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  return UniqueFd(fd);
}

// In one write(2), as the kernel wants it.
Sys<void> WriteMap(pid_t child, const char* file, const std::string& map) {
  const std::string path = "/proc/" + std::to_string(child) + "/" + file;
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid() || ::write(fd.get(), map.data(), map.size()) < 0) {
    return errno;
  }
  return {};
}

Sys<UniqueFd> MapNamespace(int socket, pid_t child, const std::string& map) {
  Sys<UniqueFd> made = ReceiveNamespace(socket);
  if (!made) {
    return made;
  }
  for (const char* file : {"uid_map", "gid_map"}) {
    if (const Sys<void> written = WriteMap(child, file, map); !written) {
      return written.error();
    }
  }
  return made;
}

}  // namespace

Sys<UniqueFd> RealKernel::NewUserNamespace(const std::string& map) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) <
      0) {
    return errno;
  }
  const UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) {
    return errno;
  }
  if (child == 0) {
    EnterAndTell(theirs.get());
  }
  theirs.reset();
  Sys<UniqueFd> made = MapNamespace(ours.get(), child, map);
  ::kill(child, SIGKILL);
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return made;
}

}  // namespace mountd::exec
