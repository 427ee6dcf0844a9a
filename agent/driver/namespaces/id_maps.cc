// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/namespaces/id_maps.h"

#include <pwd.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace mountd::driver {
namespace {

// Returns "" for a uid that has no name.
Result<std::string> NameOfUser(uid_t uid) {
  constexpr std::size_t kMostBuffer = std::size_t{1} << 20U;
  for (std::string buffer(1024, '\0');; buffer.resize(buffer.size() * 2)) {
    passwd entry{};
    passwd* found = nullptr;
    const int failed =
        ::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found);
    if (failed == 0 && found == nullptr) {
      return std::string();
    }
    if (failed == 0) {
      return std::string(found->pw_name);
    }
    if (failed != EINTR && (failed != ERANGE || buffer.size() > kMostBuffer)) {
      return ErrnoError(failed, "getpwuid_r", std::to_string(uid),
                        "the user database cannot be read now");
    }
  }
}

Result<void> CheckIdsOfProcess() {
  if (::getuid() != ::geteuid() || ::getgid() != ::getegid()) {
    return MakeError(Code::kFailedPrecondition, "id maps", "",
                     "the process has other effective ids than real ids; run "
                     "the driver without set-user-ID");
  }
  if (::getuid() == 0 || ::getgid() == 0) {
    return MakeError(Code::kFailedPrecondition, "id maps", "",
                     "a container's root would be the host's root; run the "
                     "driver as an ordinary user with an ordinary group");
  }
  return Ok();
}

// Returns why the process's user can map no more than its own ids, or "".
std::string ReasonOf(const IdSources& sources, const std::string& name,
                     const std::vector<IdRange>& uids,
                     const std::vector<IdRange>& gids) {
  for (const std::string& tool : {sources.newuidmap, sources.newgidmap}) {
    if (::access(tool.c_str(), X_OK) != 0) {
      return tool + " is missing; install the package uidmap";
    }
  }
  const std::string user = "uid " + std::to_string(::getuid());
  if (name.empty()) {
    return user + " has no name in the user database, and newuidmap needs one";
  }
  if (uids.empty() || gids.empty()) {
    return user + " (" + name + ") has no subordinate ids in " +
           (uids.empty() ? sources.subuid : sources.subgid) +
           "; give it some with usermod --add-sub" +
           (uids.empty() ? "uids" : "gids");
  }
  return "";
}

}  // namespace

IdMap MapOf(std::uint32_t own, const std::vector<IdRange>& ranges) {
  IdMap map = {{0, own, 1}};
  std::uint32_t inside = 1;
  for (const IdRange& range : ranges) {
    map.push_back({inside, range.first, range.count});
    inside += range.count;
  }
  return map;
}

std::pair<std::uint32_t, std::uint32_t> PingGroups(const IdMap& gids) {
  // The ranges are in ascending order, so the last line has the last group.
  const IdMapLine& last = gids.back();
  if (last.outside < gids.front().outside) {
    return {0, 0};
  }
  return {0, last.inside + last.count - 1};
}

Result<IdMaps> ChooseIdMaps(const IdSources& sources) {
  MOUNTD_TRY(CheckIdsOfProcess());
  const uid_t uid = ::getuid();
  const gid_t gid = ::getgid();
  MOUNTD_ASSIGN(const std::string name, NameOfUser(uid));
  const IdOwner owner{name, uid};
  MOUNTD_ASSIGN(const std::vector<IdRange> uids,
                ReadSubordinateRanges(sources.subuid, owner, uid));
  MOUNTD_ASSIGN(const std::vector<IdRange> gids,
                ReadSubordinateRanges(sources.subgid, owner, gid));
  IdMaps maps;
  maps.one_id_reason = ReasonOf(sources, name, uids, gids);
  const bool all = !maps.one_id();
  maps.uids = MapOf(uid, all ? uids : std::vector<IdRange>());
  maps.gids = MapOf(gid, all ? gids : std::vector<IdRange>());
  return maps;
}

}  // namespace mountd::driver
