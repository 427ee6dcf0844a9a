// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/look/mountinfo_excerpt.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "mountd/base/number.h"

namespace mountd::propagation {
namespace {

// A line of mountinfo, as proc(5) shows it: "36 35 98:0 /mnt1 /mnt2 rw,noatime
// master:1 - ext3 /dev/root rw".
struct Line {
  std::string_view text;  // with its line end
  std::uint64_t id = 0;
  std::uint64_t parent = 0;
  bool wanted = false;
};

std::string_view TakeField(std::string_view* rest) {
  const std::size_t end = std::min(rest->find(' '), rest->size());
  const std::string_view field = rest->substr(0, end);
  rest->remove_prefix(std::min(end + 1, rest->size()));
  return field;
}

void IndexPlaces(MountinfoExcerpt* excerpt) {
  for (std::size_t i = 0; i < excerpt->mounts.size(); ++i) {
    excerpt->places.emplace(excerpt->mounts[i].id, i);
  }
}

bool HandsOn(std::string_view text) {
  return text.find(" shared:") != std::string_view::npos &&
         text.find(" master:") != std::string_view::npos;
}

Line LineOf(std::string_view text, const std::set<std::string>& devices) {
  Line line{text};
  std::string_view rest = text;
  line.id =
      ParseNumber<std::uint64_t>(std::string(TakeField(&rest))).value_or(0);
  line.parent =
      ParseNumber<std::uint64_t>(std::string(TakeField(&rest))).value_or(0);
  line.wanted = devices.contains(std::string(TakeField(&rest)));
  return line;
}

}  // namespace

Result<MountinfoExcerpt> ExcerptOf(
    const std::string& mountinfo,
    const std::set<std::uint64_t>& device_numbers) {
  std::set<std::string> devices;
  for (const std::uint64_t device : device_numbers) {
    devices.insert(std::to_string(major(device)) + ":" +
                   std::to_string(minor(device)));
  }
  MountinfoExcerpt excerpt;
  std::vector<Line> lines;
  std::unordered_set<std::uint64_t> parents;
  for (std::string_view rest = mountinfo; !rest.empty();) {
    const std::size_t size = std::min(rest.find('\n'), rest.size() - 1) + 1;
    const Line line = LineOf(rest.substr(0, size), devices);
    rest.remove_prefix(size);
    excerpt.ids.insert(line.id);
    if (line.wanted) {
      parents.insert(line.parent);
    }
    lines.push_back(line);
  }
  std::string kept;
  for (const Line& line : lines) {
    if (line.wanted || parents.contains(line.id) || HandsOn(line.text)) {
      kept += line.text;
    }
  }
  if (!kept.empty()) {
    MOUNTD_ASSIGN(excerpt.mounts, ParseMountinfo(std::move(kept)));
  }
  IndexPlaces(&excerpt);
  return excerpt;
}

MountinfoExcerpt ExcerptOf(const std::vector<MountFacts>& mounts,
                           const std::set<std::uint64_t>& devices) {
  MountinfoExcerpt excerpt;
  std::unordered_set<std::uint64_t> parents;
  for (const MountFacts& mount : mounts) {
    excerpt.ids.insert(mount.id);
    if (devices.contains(mount.device)) {
      parents.insert(mount.parent_id);
    }
  }
  for (const MountFacts& mount : mounts) {
    const bool hands_on = mount.peer_group != 0 && mount.master != 0;
    if (devices.contains(mount.device) || parents.contains(mount.id) ||
        hands_on) {
      excerpt.mounts.push_back(mount);
    }
  }
  IndexPlaces(&excerpt);
  return excerpt;
}

}  // namespace mountd::propagation
