// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/mounts/mount_room.h"

#include <algorithm>
#include <utility>

namespace mountd {

std::uint64_t MountRoom::SetPlugins(OfPlugins counts) {
  std::uint64_t left = per_plugin_;
  const std::lock_guard lock(mutex_);
  for (auto& [plugin, count] : counts) {
    const std::uint64_t its = count.value_or(per_plugin_);
    left = std::min(left, per_plugin_ - std::min(its, per_plugin_));
    if (const auto before = of_plugin_.find(plugin);
        !count && before != of_plugin_.end()) {
      count = before->second;
    }
  }
  of_plugin_ = std::move(counts);
  return left;
}

Result<void> MountRoom::Check(const std::string& op,
                              const std::string& object) const {
  const std::uint64_t count = count_;
  const std::uint64_t most = most_;
  if (most == 0 || count + reserve_ < most) {
    return Ok();
  }
  // Look again for the next call, because somebody may have raised
  // fs.mount-max.
  if (look_) {
    look_();
  }
  return MakeError(Code::kResourceExhausted, op, object,
                   "the host has " + std::to_string(count) + " of " +
                       std::to_string(most) +
                       " mounts; unmount some or raise fs.mount-max "
                       "(limits.mount_reserve keeps the last ones free)");
}

Result<void> MountRoom::Check(const std::string& op, const std::string& object,
                              const std::string& plugin) const {
  MOUNTD_TRY(Check(op, object));
  const std::lock_guard lock(mutex_);
  const auto found = of_plugin_.find(plugin);
  if (found == of_plugin_.end() || !found->second ||
      *found->second < per_plugin_) {
    return Ok();
  }
  return MakeError(Code::kResourceExhausted, op, object,
                   "plugin " + plugin + " has " +
                       std::to_string(*found->second) +
                       " mounts below its directory; unpublish volumes or "
                       "raise limits.mounts_per_plugin");
}

}  // namespace mountd
