// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/doctor/host_checks.h"

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <utility>

namespace mountd::agent {
namespace {

constexpr char kSocket[] = "socket";
constexpr char kRoot[] = "root";

Check NotAllowedTo(const SocketFacts& facts) {
  const std::string why = facts.user + " may not connect to " + facts.path;
  if (facts.group.empty()) {
    return {
        Verdict::kFailed, kSocket, why + ", which only root may use",
        "run systemctl restart mountd.socket, which gives it to mountd-agents"};
  }
  if (facts.in_group) {
    return {Verdict::kFailed, kSocket,
            why + ", although it is in the group " + facts.group,
            "the socket's mode differs from mountd.socket; run systemctl "
            "restart mountd.socket"};
  }
  if (facts.listed) {
    return {Verdict::kFailed, kSocket,
            why + ", because it was added to the group " + facts.group +
                " after this session began",
            "log in again, or restart the agent's service"};
  }
  return {Verdict::kFailed, kSocket,
          why + ", because it is not in the group " + facts.group,
          "usermod -aG " + facts.group + " " + facts.user +
              ", then log in again, or restart the agent's service"};
}

// Returns the fields of one mountinfo line up to the "-": id, parent, device,
// root, mount point, options, and the optional fields.
std::vector<std::string> FieldsOf(const std::string& line) {
  std::istringstream words(line);
  std::vector<std::string> fields;
  for (std::string word; words >> word && word != "-";) {
    fields.push_back(word);
  }
  return fields;
}

// Returns the optional fields of the mount at "/". If there are several, the
// last line is the topmost mount.
std::optional<std::vector<std::string>> RootTags(std::string_view mountinfo) {
  constexpr std::size_t kMountPoint = 4;
  constexpr std::size_t kTags = 6;
  std::optional<std::vector<std::string>> tags;
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> fields = FieldsOf(line);
    if (fields.size() >= kTags && fields[kMountPoint] == "/") {
      tags.emplace(fields.begin() + kTags, fields.end());
    }
  }
  return tags;
}

bool HasTag(const std::vector<std::string>& tags, std::string_view prefix) {
  return std::any_of(tags.begin(), tags.end(), [&](const std::string& tag) {
    return tag.starts_with(prefix);
  });
}

}  // namespace

Check CheckSocket(const SocketFacts& facts) {
  if (!facts.error) {
    return Fine(kSocket,
                "mountd " + facts.version + " answers on " + facts.path);
  }
  const Error& error = *facts.error;
  // EACCES comes from the socket's mode, PermissionDenied from the bus's
  // policy.
  if (error.sys_errno == EACCES || error.code == Code::kPermissionDenied) {
    return NotAllowedTo(facts);
  }
  if (error.sys_errno == ENOENT) {
    return {Verdict::kFailed, kSocket, facts.path + " does not exist",
            "systemctl enable --now mountd.socket mountd.service"};
  }
  // The socket's file is there, but nobody listens on it (connect(2)).
  if (error.sys_errno == ECONNREFUSED) {
    return {Verdict::kFailed, kSocket, "no process listens on " + facts.path,
            "systemctl restart mountd.socket"};
  }
  return {Verdict::kFailed, kSocket,
          "mountd does not answer on " + facts.path + ": " + error.Message(),
          "read journalctl -u mountd.service"};
}

Check CheckUnit(const UnitState& unit) {
  const std::string what = "unit " + unit.name;
  if (unit.load != "loaded") {
    return {Verdict::kFailed, what, unit.load,
            unit.load == "masked" ? "systemctl unmask " + unit.name
                                  : "install the package mountd-service"};
  }
  if (unit.active == "failed") {
    return {
        Verdict::kFailed, what, "failed",
        "journalctl -u " + unit.name + ", then systemctl restart " + unit.name};
  }
  // A service may wait for its socket, but a socket that does not listen starts
  // nothing.
  if (unit.active == "inactive" && unit.name.ends_with(".socket")) {
    return {Verdict::kFailed, what, "does not listen",
            "systemctl enable --now " + unit.name};
  }
  return Fine(what, unit.active);
}

Check CheckRootPropagation(std::string_view mountinfo) {
  const auto tags = RootTags(mountinfo);
  if (!tags) {
    return {Verdict::kUnknown, kRoot, "mountinfo does not list it", ""};
  }
  if (HasTag(*tags, "shared:")) {
    return Fine(kRoot,
                "is shared, so its directories can be host-to-task and "
                "bidirectional volumes");
  }
  const bool slave = HasTag(*tags, "master:");
  return {Verdict::kWarning, kRoot,
          slave ? "is a slave, so mountd refuses bidirectional mounts of host "
                  "volumes on it"
                : "is private, so mountd refuses host-to-task and "
                  "bidirectional mounts of host volumes on it",
          "run mount --make-rshared /, or make each such volume its own shared "
          "mount"};
}

Check CheckMountRoom(std::string_view mountinfo, std::uint64_t most,
                     std::uint64_t reserve) {
  const auto count = static_cast<std::uint64_t>(
      std::count(mountinfo.begin(), mountinfo.end(), '\n'));
  const std::uint64_t left = most > count ? most - count : 0;
  const std::string why = std::to_string(count) + " of " +
                          std::to_string(most) + " that fs.mount-max allows";
  const std::string advice = "sysctl fs.mount-max=" + std::to_string(2 * most) +
                             ", and find their owners with findmnt --real";
  if (left <= reserve) {
    return {Verdict::kFailed, "mounts",
            why + ", and mountd keeps the last of them for others", advice};
  }
  if (left < most / 10) {
    return {Verdict::kWarning, "mounts", why, advice};
  }
  return Fine("mounts", why);
}

Check CheckForwarding(bool forwards, std::uint64_t used) {
  const std::string what = "net.ipv4.ip_forward";
  if (forwards) {
    return Fine(what, "1");
  }
  if (used == 0) {
    return Fine(what, "0; mountd turns it on with the first network");
  }
  return {Verdict::kFailed, what,
          "0, but allocations have networks: another program turned it off",
          "sysctl net.ipv4.ip_forward=1, and correct /etc/sysctl.d"};
}

}  // namespace mountd::agent
