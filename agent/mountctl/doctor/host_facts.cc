// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/doctor/host_facts.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sdbus-c++/sdbus-c++.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "mountd/base/paths.h"
#include "mountd/base/unique_fd.h"

namespace mountd::agent {
namespace {

constexpr char kAgents[] = "mountd-agents";

bool IsInGroup(gid_t gid) {
  const std::vector<gid_t> groups = CallerGroups();
  return std::find(groups.begin(), groups.end(), gid) != groups.end();
}

bool Lists(const group& entry, const std::string& user) {
  for (char** member = entry.gr_mem; *member != nullptr; ++member) {
    if (user == *member) {
      return true;
    }
  }
  return false;
}

// Reads the group from the socket, because an administrator may have changed
// it.
const group* GroupOf(const std::string& path) {
  struct stat socket {};
  return ::stat(path.c_str(), &socket) == 0 ? ::getgrgid(socket.st_gid)
                                            : ::getgrnam(kAgents);
}

std::string PathOf(const ClientOptions& options) {
  constexpr std::string_view kUnixPath = "unix:path=";
  const std::string& address = options.address;
  if (address.empty()) {
    return paths::kBusSocket;
  }
  return address.starts_with(kUnixPath) ? address.substr(kUnixPath.size())
                                        : address;
}

}  // namespace

std::string CallerName() {
  const passwd* entry = ::getpwuid(::geteuid());
  return entry == nullptr ? std::to_string(::geteuid()) : entry->pw_name;
}

std::vector<gid_t> CallerGroups() {
  const int count = ::getgroups(0, nullptr);
  std::vector<gid_t> groups(count > 0 ? static_cast<std::size_t>(count) : 0);
  if (::getgroups(count, groups.data()) < 0) {
    groups.clear();
  }
  // getgroups(2) need not list the effective group.
  groups.push_back(::getegid());
  return groups;
}

SocketFacts LookAtSocket(const ClientOptions& options) {
  SocketFacts facts;
  facts.user = CallerName();
  facts.group = kAgents;
  facts.path = options.system_bus ? "org.mountd1" : PathOf(options);
  const group* entry =
      options.system_bus ? ::getgrnam(kAgents) : GroupOf(facts.path);
  if (entry != nullptr) {
    // Leaves root's group out, because the advice must not be to join it.
    facts.group = entry->gr_gid == 0 ? "" : entry->gr_name;
    facts.in_group = IsInGroup(entry->gr_gid);
    facts.listed = Lists(*entry, facts.user);
  }
  return facts;
}

// A FIFO would make the reader wait, and a device has no end.
Result<std::string> ReadWhole(const std::string& path) {
  constexpr std::size_t kMostBytes = std::size_t{16} << 20U;
  const UniqueFd file(
      ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat facts = {};
  if (!file.valid() || ::fstat(file.get(), &facts) != 0) {
    return ErrnoError(errno, "open", path);
  }
  if (!S_ISREG(facts.st_mode)) {
    return MakeError(Code::kInvalidArgument, "read", path, "is no plain file");
  }
  std::string text;
  std::array<char, 65536> piece{};
  for (;;) {
    const ssize_t got = ::read(file.get(), piece.data(), piece.size());
    if (got < 0) {
      return ErrnoError(errno, "read", path);
    }
    if (got == 0) {
      return text;
    }
    text.append(piece.data(), static_cast<std::size_t>(got));
    if (text.size() > kMostBytes) {
      return MakeError(Code::kInvalidArgument, "read", path, "is too large");
    }
  }
}

Result<std::string> ReadHostMountinfo() {
  // With hidepid a user may not see pid 1 (proc(5)).
  Result<std::string> host = ReadWhole("/proc/1/mountinfo");
  return host && !host->empty() ? std::move(host)
                                : ReadWhole("/proc/self/mountinfo");
}

Result<std::vector<UnitState>> ReadUnits() {
  using Unit = sdbus::Struct<std::string, std::string, std::string, std::string,
                             std::string, std::string, sdbus::ObjectPath,
                             std::uint32_t, std::string, sdbus::ObjectPath>;
  const std::vector<std::string> names = {"mountd.socket", "mountd-exec.socket",
                                          "mountd-csi.socket", "mountd.service",
                                          "mountd-csi.service"};
  std::vector<UnitState> units;
  if (::access("/run/systemd/system", F_OK) < 0) {  // sd_booted(3)
    return units;
  }
  try {
    const auto bus = sdbus::createSystemBusConnection();
    const auto systemd =
        sdbus::createProxy(*bus, sdbus::ServiceName("org.freedesktop.systemd1"),
                           sdbus::ObjectPath("/org/freedesktop/systemd1"));
    std::vector<Unit> answer;
    systemd->callMethod("ListUnitsByNames")
        .onInterface("org.freedesktop.systemd1.Manager")
        .withTimeout(std::chrono::seconds(5))
        .withArguments(names)
        .storeResultsTo(answer);
    for (const Unit& unit : answer) {
      units.push_back({unit.get<0>(), unit.get<2>(), unit.get<3>()});
    }
  } catch (const sdbus::Error& error) {
    return MakeError(Code::kUnavailable, "ask", "systemd", error.getMessage());
  }
  return units;
}

}  // namespace mountd::agent
