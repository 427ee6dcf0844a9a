// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/task_config.h"

#include <algorithm>

namespace mountd::driver {

bool InsertMount(const Mount& mount, std::vector<Mount>& mounts) {
  if (std::find(mounts.begin(), mounts.end(), mount) != mounts.end()) {
    return false;
  }
  const auto others = std::remove_if(
      mounts.begin(), mounts.end(),
      [&](const Mount& one) { return one.task_path == mount.task_path; });
  mounts.erase(others, mounts.end());
  mounts.push_back(mount);
  return true;
}

void SetEnvironment(std::string_view name, std::string_view value,
                    std::vector<EnvironmentEntry>& environment) {
  const auto place = std::lower_bound(
      environment.begin(), environment.end(), name,
      [](const EnvironmentEntry& entry, std::string_view wanted) {
        return entry.name < wanted;
      });
  if (place != environment.end() && place->name == name) {
    place->value = value;
  } else {
    environment.insert(place, {std::string(name), std::string(value)});
  }
}

}  // namespace mountd::driver
