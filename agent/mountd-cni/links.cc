// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-cni/links.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/nsfs.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace mountd::cni_plugin {
namespace {

constexpr int kMacBytes = 6;

bool IsNetns(int fd) {
  struct statfs filesystem {};
  return ::fstatfs(fd, &filesystem) == 0 && filesystem.f_type == NSFS_MAGIC &&
         ::ioctl(fd, NS_GET_NSTYPE) == CLONE_NEWNET;
}

// Makes a socket in the namespace, because a socket stays in the namespace it
// was made in.
Result<UniqueFd> SocketIn(int netns) {
  const UniqueFd own(
      netns < 0 ? -1 : ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  if (netns >= 0 && (!own.valid() || ::setns(netns, CLONE_NEWNET) != 0)) {
    return ErrnoError(errno, "setns", "network namespace");
  }
  UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  // Keeps errno, because setns may change it.
  const int error = errno;
  if (netns >= 0 && ::setns(own.get(), CLONE_NEWNET) != 0) {
    // The process cannot go back, so everything it does next would happen in
    // the wrong namespace.
    std::abort();
  }
  if (!socket.valid()) {
    return ErrnoError(error, "socket", "network namespace");
  }
  return socket;
}

std::string ToText(const char* bytes) {
  std::array<char, 3 * kMacBytes + 1> text{};
  char* end = text.data();
  for (int i = 0; i < kMacBytes; ++i) {
    end += std::snprintf(end, 4, i == 0 ? "%02x" : ":%02x",
                         static_cast<unsigned char>(bytes[i]));
  }
  return text.data();
}

}  // namespace

Outcome<Netns> OpenNetns(const std::string& path) {
  Netns netns;
  // O_NONBLOCK, because the path may be a fifo.
  netns.fd.reset(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!netns.fd.valid()) {
    const int error = errno;
    const bool gone = error == ENOENT || error == ENOTDIR;
    return Failure{gone ? cni::kUnknownContainer : cni::kInvalidEnvironment,
                   ErrnoError(error, "open", "CNI_NETNS").Message()};
  }
  struct stat facts {};
  if (!IsNetns(netns.fd.get()) || ::fstat(netns.fd.get(), &facts) != 0) {
    return Failure{cni::kInvalidEnvironment,
                   "CNI_NETNS must be a network namespace"};
  }
  netns.inode = facts.st_ino;
  return netns;
}

Result<std::string> MacOf(const std::string& interface, int netns) {
  ifreq request{};
  if (interface.size() >= sizeof(request.ifr_name)) {
    return MakeError(Code::kInvalidArgument, "find", interface,
                     "is not a valid interface name");
  }
  MOUNTD_ASSIGN(const UniqueFd socket, SocketIn(netns));
  std::memcpy(&request.ifr_name[0], interface.data(), interface.size());
  if (::ioctl(socket.get(), SIOCGIFHWADDR, &request) != 0) {
    const int error = errno;
    return error == ENODEV
               ? MakeError(Code::kNotFound, "find", interface, "does not exist")
               : ErrnoError(error, "SIOCGIFHWADDR", interface);
  }
  return ToText(&request.ifr_hwaddr.sa_data[0]);
}

}  // namespace mountd::cni_plugin
