// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/fuzz/exec_places.h"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "mountd/base/names.h"
#include "mountd/base/paths.h"

namespace mountd::fuzz {
namespace {

std::string InBase(const char* part, const std::string& name) {
  return std::string(paths::kBase) + "/" + part + "/" + name;
}

}  // namespace

std::string PlaceOfPlugin(const std::string& plugin) {
  return InBase(paths::kPlugins, plugin);
}

std::string PlaceOfFilesystem(const std::string& filesystem) {
  return InBase(paths::kFilesystems, filesystem) + "/fs";
}

std::string PlaceOfAllocation(const std::string& allocation) {
  return InBase(paths::kAllocations, allocation);
}

const exec::SourcePlan* SourceOf(const exec::Request& plan) {
  switch (plan.kind) {
    case exec::PlanKind::kAttach:
      return &plan.body.attach.source;
    case exec::PlanKind::kOpenTree:
      return &plan.body.open_tree.source;
    default:
      return nullptr;
  }
}

bool IsWritable(const std::string& path) {
  if (path.starts_with("fusectl:")) {
    return path.ends_with("/abort");
  }
  const std::string files = InBase(paths::kNetworkFiles, "");
  if (!path.starts_with(files)) {
    return false;
  }
  const std::string rest = path.substr(files.size());
  const std::size_t slash = rest.find('/');
  const std::string file =
      slash == std::string::npos ? "" : rest.substr(slash + 1);
  return IsValidName(rest.substr(0, slash)) &&
         (file == "hosts" || file == "hostname" || file == "resolv.conf");
}

bool AreOwnRules(const std::string& commands) {
  std::istringstream lines(commands);
  int depth = 0;
  for (std::string line; std::getline(lines, line);) {
    const bool own_table = line.starts_with("table inet mountd {") ||
                           line.find(" inet mountd ") != std::string::npos;
    const bool forward =
        (line.starts_with("insert rule ip filter FORWARD ") ||
         line.starts_with("insert rule ip6 filter FORWARD ")) &&
        line.find("\"md*\" counter accept comment \"mountd: ") !=
            std::string::npos;
    const bool deleted = line.starts_with("delete rule ip filter FORWARD ") ||
                         line.starts_with("delete rule ip6 filter FORWARD ");
    if (depth == 0 && !line.empty() && !own_table && !forward && !deleted) {
      return false;
    }
    depth += static_cast<int>(std::count(line.begin(), line.end(), '{'));
    depth -= static_cast<int>(std::count(line.begin(), line.end(), '}'));
  }
  return depth == 0;
}

}  // namespace mountd::fuzz
