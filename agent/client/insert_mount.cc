// SPDX-License-Identifier: LGPL-2.1-or-later
#include <algorithm>

#include "agent/types_mounts.h"

namespace mountd::agent {

bool InsertMount(const MountConfig& config, std::vector<MountConfig>& mounts) {
  if (config.host_path.empty()) {
    return false;
  }
  const auto takes_its_place = [&config](const MountConfig& one) {
    return one.host_path == config.host_path ||
           (!config.task_path.empty() && one.task_path == config.task_path);
  };
  const auto first =
      std::find_if(mounts.begin(), mounts.end(), takes_its_place);
  if (first == mounts.end()) {
    mounts.push_back(config);
    return true;
  }
  const auto others =
      std::remove_if(first + 1, mounts.end(), takes_its_place);
  const bool changed = *first != config || others != mounts.end();
  *first = config;
  mounts.erase(others, mounts.end());
  return changed;
}

}  // namespace mountd::agent
