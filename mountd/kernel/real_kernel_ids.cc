// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <span>
#include <utility>

#include "mountd/base/fd_message.h"
#include "mountd/kernel/real_kernel.h"

namespace mountd::exec {
namespace {

// Sends a new user namespace, or an errno, to the parent. Then waits to be
// killed by the parent, or by the parent's end (PR_SET_PDEATHSIG). Keeps only
// its end of the socket, so that nobody who enters the namespace finds an
// object of the executor's there.
[[noreturn]] void EnterAndTell(int parents) {
  constexpr int socket = 0;
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || ::dup2(parents, socket) < 0 ||
      ::close_range(socket + 1, ~0U, 0) < 0) {
    ::_exit(1);
  }
  const int fd = ::unshare(CLONE_NEWUSER) == 0
                     ? ::open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC)
                     : -1;
  const int err = fd < 0 ? errno : 0;
  if (!SendWithFds(socket, std::as_bytes(std::span(&err, 1)),
                   std::span(&fd, fd < 0 ? 0U : 1U))) {
    ::_exit(1);
  }
  for (;;) {
    ::pause();
  }
}

Sys<UniqueFd> ReceiveNamespace(int socket) {
  int err = 0;
  Sys<Received> received =
      ReceiveWithFds(socket, std::as_writable_bytes(std::span(&err, 1)), 1);
  if (!received) {
    return received.error();
  }
  if (received->fds.empty()) {
    return received->size == sizeof(err) ? err : ECHILD;
  }
  return std::move(received->fds.front());
}

// Writes the map by one write(2), because the kernel takes only one.
Sys<void> WriteMap(pid_t child, const char* file, const std::string& map) {
  const std::string path = "/proc/" + std::to_string(child) + "/" + file;
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid() || ::write(fd.get(), map.data(), map.size()) < 0) {
    return errno;
  }
  return {};
}

Sys<UniqueFd> MapNamespace(int socket, pid_t child, const std::string& uid_map,
                           const std::string& gid_map) {
  Sys<UniqueFd> made = ReceiveNamespace(socket);
  if (!made) {
    return made;
  }
  // The parent writes the maps, because the writer needs CAP_SETUID and
  // CAP_SETGID in the parent user namespace (user_namespaces(7)).
  for (const auto& [file, map] :
       {std::pair{"uid_map", &uid_map}, std::pair{"gid_map", &gid_map}}) {
    if (const Sys<void> written = WriteMap(child, file, *map); !written) {
      return written.error();
    }
  }
  return made;
}

}  // namespace

Sys<UniqueFd> RealKernel::NewUserNamespace(const std::string& uid_map,
                                           const std::string& gid_map) {
  std::array<int, 2> ends{};
  // SOCK_SEQPACKET keeps the answer in one piece, and the end of a child that
  // sent none reads as an empty message.
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
  // Close the child's end here, so that this process notices when the child
  // ends.
  theirs.reset();
  Sys<UniqueFd> made = MapNamespace(ours.get(), child, uid_map, gid_map);
  // The fd keeps the namespace alive without the child.
  ::kill(child, SIGKILL);
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return made;
}

}  // namespace mountd::exec
