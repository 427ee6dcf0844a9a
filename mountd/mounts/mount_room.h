// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "mountd/base/result.h"

namespace mountd {

// Knows the number of mounts in the host's mount namespace and the most that
// there may be (fs.mount-max). Keeps the last of them for others, because at
// the limit nobody on the host can mount or start a unit with a namespace of
// its own. Also knows how many mounts each plugin has below its directory,
// where mounts from the plugin's task arrive. Nothing stops a plugin from
// mounting there. But if a plugin has too many mounts there, mountd publishes
// and mounts no more volumes of the plugin.
//
// MountWatch sets the numbers. Until then every check passes. Thread-safe.
//
// If a check fails, mountd counts the mounts again for the caller's next call,
// because the kernel does not notify of a change of fs.mount-max.
class MountRoom {
 public:
  explicit MountRoom(
      std::uint64_t reserve,
      std::uint64_t per_plugin = std::numeric_limits<std::uint64_t>::max())
      : reserve_(reserve), per_plugin_(per_plugin) {}

  // Sets the function that counts again; any thread may call that function.
  // Call this before the first check.
  void WhenFull(std::function<void()> look) { look_ = std::move(look); }

  void Set(std::uint64_t count, std::uint64_t most) {
    most_ = most;
    count_ = count;
  }
  void SetCount(std::uint64_t count) { count_ = count; }
  std::uint64_t count() const { return count_; }

  // Sets the counts of all plugins. A plugin that could not be counted has none
  // here and keeps its old count. Returns how many mounts more it takes, at
  // least, until a plugin has too many.
  using OfPlugins = std::map<std::string, std::optional<std::uint64_t>>;
  std::uint64_t SetPlugins(OfPlugins counts);

  // ResourceExhausted, naming fs.mount-max, if only the reserve is left.
  Result<void> Check(const std::string& op, const std::string& object) const;
  // Checks the plugin too: ResourceExhausted, naming limits.mounts_per_plugin,
  // if the plugin has that many mounts.
  Result<void> Check(const std::string& op, const std::string& object,
                     const std::string& plugin) const;

 private:
  const std::uint64_t reserve_;
  const std::uint64_t per_plugin_;
  std::function<void()> look_;
  std::atomic<std::uint64_t> count_ = 0;
  std::atomic<std::uint64_t> most_ = 0;  // 0: unknown
  mutable std::mutex mutex_;
  OfPlugins of_plugin_;  // mutex_
};

}  // namespace mountd
