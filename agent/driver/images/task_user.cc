// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/images/task_user.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "agent/driver/images/beneath.h"
#include "mountd/base/number.h"
#include "mountd/base/one_line.h"

namespace mountd::driver {
namespace {

constexpr std::size_t kMaxAccountFile = std::size_t{1} << 20U;
constexpr std::size_t kMaxUser = 512;
// The kernel's NGROUPS_MAX is 65536. This limit is lower, because setgroups(2)
// copies all groups at every start.
constexpr std::size_t kMaxGroups = 1024;
// runc refuses larger ids, too, because some tools read ids as int.
constexpr std::uint32_t kMaxId = 0x7fffffff;
constexpr std::size_t kPasswdFields = 7;
constexpr std::size_t kGroupFields = 4;

using Fields = std::vector<std::string_view>;

Error BadUser(std::string_view user, Code code, std::string why) {
  return MakeError(code, "resolve user", OnOneLine(user), std::move(why));
}

Fields Split(std::string_view text, char by) {
  Fields parts;
  for (;;) {
    const std::size_t end = text.find(by);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

std::optional<std::uint32_t> ParseId(std::string_view text) {
  const auto id = ParseNumber<std::uint32_t>(text);
  return id && *id <= kMaxId ? id : std::nullopt;
}

bool IsDigits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c >= '0' && c <= '9';
  });
}

// Returns the file's content, and nothing if the root file system has no such
// file.
Result<std::optional<std::string>> ReadAccounts(int rootfs, const char* path) {
  Result<std::string> text = ReadBeneath(
      rootfs, path, kMaxAccountFile, "/" + std::string(path) + " of the image");
  if (text) {
    return std::optional(std::move(text).value());
  }
  if (text.error().code == Code::kNotFound) {
    return std::optional<std::string>();
  }
  if (text.error().code == Code::kPermissionDenied) {
    text.error().detail =
        "must be readable by the image's root; mend the image";
  }
  return std::move(text).error();
}

// Calls `visit` for each line that has `fields` fields, until `visit` returns
// true.
template <typename Visit>
void EachAccount(std::string_view text, std::size_t fields, Visit visit) {
  for (const std::string_view line : Split(text, '\n')) {
    if (line.starts_with('#')) {
      continue;
    }
    const Fields parts = Split(line, ':');
    if (parts.size() == fields && visit(parts)) {
      return;
    }
  }
}

// Finds a user by number or name. Returns whether /etc/passwd has the user.
bool FindInPasswd(std::string_view text, std::string_view wanted,
                  std::optional<std::uint32_t> id, TaskUser& found) {
  bool has = false;
  EachAccount(text, kPasswdFields, [&](const Fields& fields) {
    const auto uid = ParseId(fields[2]);
    const auto gid = ParseId(fields[3]);
    if (!uid || !gid || (id ? *uid != *id : fields[0] != wanted)) {
      return false;
    }
    found.uid = *uid;
    found.gid = *gid;
    found.name = fields[0];
    if (fields[5].starts_with('/') &&
        fields[5].find('\0') == std::string_view::npos) {
      found.home = fields[5];
    }
    has = true;
    return true;
  });
  return has;
}

std::vector<gid_t> GroupsOf(std::string_view text, const TaskUser& user) {
  std::vector<gid_t> groups;
  EachAccount(text, kGroupFields, [&](const Fields& fields) {
    const auto gid = ParseId(fields[2]);
    const Fields members = Split(fields[3], ',');
    if (gid && *gid != user.gid &&
        std::find(members.begin(), members.end(), user.name) != members.end() &&
        std::find(groups.begin(), groups.end(), *gid) == groups.end()) {
      groups.push_back(*gid);
    }
    return groups.size() > kMaxGroups;
  });
  return groups;
}

Result<gid_t> FindGroup(int rootfs, std::string_view user,
                        std::string_view group) {
  if (IsDigits(group)) {
    const auto id = ParseId(group);
    return id ? Result<gid_t>(*id)
              : BadUser(user, Code::kInvalidArgument,
                        "has a group id above 2147483647");
  }
  MOUNTD_ASSIGN(const auto text, ReadAccounts(rootfs, "etc/group"));
  std::optional<gid_t> found;
  EachAccount(text.value_or(""), kGroupFields, [&](const Fields& fields) {
    const auto gid = ParseId(fields[2]);
    if (fields[0] == group && gid) {
      found = *gid;
    }
    return found.has_value();
  });
  if (!found) {
    return BadUser(user, Code::kNotFound,
                   "the image's /etc/group has no such group; give a gid");
  }
  return *found;
}

Result<TaskUser> FindUserOf(int rootfs, std::string_view whole,
                            std::string_view user) {
  std::optional<std::uint32_t> id;
  if (user.empty() || IsDigits(user)) {
    id = user.empty() ? 0 : ParseId(user);
    if (!id) {
      return BadUser(whole, Code::kInvalidArgument,
                     "has a user id above 2147483647");
    }
  }
  TaskUser found;
  MOUNTD_ASSIGN(const auto text, ReadAccounts(rootfs, "etc/passwd"));
  if (!FindInPasswd(text.value_or(""), user, id, found)) {
    if (!id) {
      return BadUser(whole, Code::kNotFound,
                     text ? "the image's /etc/passwd has no such user; give a "
                            "uid"
                          : "the image has no /etc/passwd; give a uid");
    }
    found.uid = *id;
  }
  return found;
}

}  // namespace

Result<TaskUser> ResolveUser(int rootfs, std::string_view user) {
  const Fields parts = Split(user, ':');
  if (user.size() > kMaxUser || user.find('\0') != std::string_view::npos ||
      parts.size() > 2 || (parts.size() == 2 && parts[1].empty())) {
    return BadUser(user.substr(0, kMaxUser), Code::kInvalidArgument,
                   "must be a name or uid, or either with :group");
  }
  MOUNTD_ASSIGN(TaskUser found, FindUserOf(rootfs, user, parts[0]));
  if (parts.size() == 2) {
    MOUNTD_ASSIGN(found.gid, FindGroup(rootfs, user, parts[1]));
    return found;
  }
  if (!found.name.empty()) {
    MOUNTD_ASSIGN(const auto text, ReadAccounts(rootfs, "etc/group"));
    found.additional_gids = GroupsOf(text.value_or(""), found);
    if (found.additional_gids.size() > kMaxGroups) {
      return BadUser(user, Code::kResourceExhausted,
                     "has more than 1024 groups in the image's /etc/group; "
                     "give user:group");
    }
  }
  return found;
}

}  // namespace mountd::driver
