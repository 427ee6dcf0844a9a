// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/namespaces/namespaces.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <string>

#include "agent/driver/namespaces/child.h"
#include "agent/driver/namespaces/id_tools.h"

namespace mountd::driver {
namespace {

enum MakeStep : int {
  kMakeUser,
  kMakeNetwork,
  kLoopbackUp,
  kOpenPorts,
  kOpenPing,
  kAllMade,
};
constexpr std::array<const char*, 5> kStepNames = {
    "unshare(CLONE_NEWUSER)", "unshare(CLONE_NEWNET)", "lo up",
    "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range"};

// All that the child reads. The parent formats the text, because snprintf(3) is
// not async-signal-safe.
struct MakeOrder {
  bool network = false;
  std::array<char, 32> ping_groups{};
  std::size_t ping_groups_bytes = 0;
};

[[noreturn]] void FailInChild(int socket, MakeStep step) {
  ReportStep(socket, step, errno);
  ::_exit(1);
}

bool LoopbackUp() {
  const int any = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (any < 0) {
    return false;
  }
  ifreq request{};
  request.ifr_name[0] = 'l';
  request.ifr_name[1] = 'o';
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  return ::ioctl(any, SIOCSIFFLAGS, &request) == 0;
}

bool WriteSysctl(const char* path, const char* text, std::size_t bytes) {
  const int file = ::open(path, O_WRONLY | O_CLOEXEC);
  return file >= 0 && ::write(file, text, bytes) == static_cast<ssize_t>(bytes);
}

void MakeNetworkInChild(int socket, const MakeOrder& order) {
  if (::unshare(CLONE_NEWNET) != 0) {
    FailInChild(socket, kMakeNetwork);
  }
  if (!LoopbackUp()) {
    FailInChild(socket, kLoopbackUp);
  }
  if (!WriteSysctl("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0", 1)) {
    FailInChild(socket, kOpenPorts);
  }
  if (!WriteSysctl("/proc/sys/net/ipv4/ping_group_range",
                   order.ping_groups.data(), order.ping_groups_bytes)) {
    FailInChild(socket, kOpenPing);
  }
}

void MakeInChild(int socket, const void* data) {
  const MakeOrder& order = *static_cast<const MakeOrder*>(data);
  if (::unshare(CLONE_NEWUSER) != 0) {
    FailInChild(socket, kMakeUser);
  }
  ReportStep(socket, kMakeUser, 0);
  AwaitParent(socket);  // the parent writes the maps
  if (order.network) {
    MakeNetworkInChild(socket, order);
  }
  ReportStep(socket, kAllMade, 0);
  AwaitParent(socket);  // the parent opens the namespaces, and hangs up
}

MakeOrder OrderOf(const IdMaps& maps, WithNetwork network) {
  MakeOrder order;
  order.network = network == WithNetwork::kYes;
  const auto [first, last] = PingGroups(maps.gids);
  const int bytes = std::snprintf(
      order.ping_groups.data(), order.ping_groups.size(), "%u %u", first, last);
  order.ping_groups_bytes = static_cast<std::size_t>(bytes);
  return order;
}

// Says what a person can do about the errno of a step.
std::string AdviceFor(int step, int error) {
  if (step == kMakeUser && error == EPERM) {
    return "this machine lets no ordinary user make a user namespace; look at "
           "the sysctls kernel.unprivileged_userns_clone and "
           "kernel.apparmor_restrict_unprivileged_userns";
  }
  if ((step == kMakeUser || step == kMakeNetwork) && error == ENOSPC) {
    return step == kMakeUser ? "raise the sysctl user.max_user_namespaces"
                             : "raise the sysctl user.max_net_namespaces";
  }
  if ((step == kOpenPorts || step == kOpenPing) && error == EROFS) {
    return "run the driver where /proc/sys/net can be written";
  }
  return "";
}

Result<void> AwaitStep(const Child& child, int step, const Deadline& deadline) {
  MOUNTD_ASSIGN(const ChildReport report, child.Receive(deadline));
  if (report.error != 0) {
    const auto index = static_cast<std::size_t>(report.step);
    const char* name = index < kStepNames.size() ? kStepNames[index] : "step";
    return ErrnoError(report.error, name, "",
                      AdviceFor(report.step, report.error));
  }
  if (report.step != step) {
    return MakeError(Code::kInternal, "namespaces", "",
                     "the child reports a step out of turn");
  }
  return Ok();
}

Result<UniqueFd> OpenNamespaceOf(pid_t process, const char* kind) {
  const std::string path = "/proc/" + std::to_string(process) + "/ns/" + kind;
  UniqueFd opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened.valid()) {
    return ErrnoError(errno, "open", path,
                      "the process may not look at its own child; do not make "
                      "it undumpable (PR_SET_DUMPABLE)");
  }
  return opened;
}

Result<void> CheckMaps(const IdMaps& maps) {
  for (const IdMap& map : {maps.uids, maps.gids}) {
    if (map.empty() || map.front().inside != 0 || map.front().count != 1) {
      return MakeError(Code::kInvalidArgument, "id map", "",
                       "the first line does not map 0 alone");
    }
    for (const IdMapLine& line : map) {
      if (line.outside == 0) {
        return MakeError(Code::kInvalidArgument, "id map", "",
                         "the map would give the container the host's root");
      }
    }
  }
  return Ok();
}

}  // namespace

Result<NewNamespaces> MakeNamespaces(const IdMaps& maps, WithNetwork network,
                                     const IdSources& sources,
                                     std::chrono::milliseconds patience) {
  MOUNTD_TRY(CheckMaps(maps));
  const Deadline deadline(patience);
  const MakeOrder order = OrderOf(maps, network);
  MOUNTD_ASSIGN(const Child child, Child::Fork(MakeInChild, &order));
  MOUNTD_TRY(AwaitStep(child, kMakeUser, deadline));
  const Result<void> mapped = GiveIdMaps(child.pid(), maps, sources, deadline);
  if (!mapped && child.HasEnded()) {
    return ForkError(ECHILD, "namespaces", "");
  }
  MOUNTD_TRY(mapped);
  MOUNTD_TRY(child.Send());
  MOUNTD_TRY(AwaitStep(child, kAllMade, deadline));
  NewNamespaces made;
  MOUNTD_ASSIGN(made.user, OpenNamespaceOf(child.pid(), "user"));
  if (network == WithNetwork::kYes) {
    MOUNTD_ASSIGN(made.network, OpenNamespaceOf(child.pid(), "net"));
  }
  return made;
}

Result<UniqueFd> UserNamespaceOf(int network) {
  if (::ioctl(network, NS_GET_NSTYPE) != CLONE_NEWNET) {
    return MakeError(Code::kInvalidArgument, "NS_GET_USERNS", "",
                     "the file is no network namespace");
  }
  UniqueFd user(::ioctl(network, NS_GET_USERNS));
  if (!user.valid()) {
    return ErrnoError(errno, "NS_GET_USERNS", "");
  }
  struct stat found = {};
  struct stat own = {};
  if (::fstat(user.get(), &found) != 0 ||
      ::stat("/proc/self/ns/user", &own) != 0) {
    return ErrnoError(errno, "stat", "the user namespace");
  }
  if (found.st_ino == own.st_ino && found.st_dev == own.st_dev) {
    return MakeError(Code::kInvalidArgument, "NS_GET_USERNS", "",
                     "the network namespace belongs to the host's own user "
                     "namespace, which no container can enter; make the "
                     "network within a user namespace of the user's");
  }
  return user;
}

}  // namespace mountd::driver
