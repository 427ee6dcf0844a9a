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

// How many mounts there are in the host's mount namespace, of how many there
// may be (fs.mount-max): the last of them are kept for others. At the limit
// nobody on the host mounts anything, nor starts a unit with a namespace of its
// own. And how many of them each plugin has made below its directory, where
// what it mounts in its task arrives: nothing keeps it from that, but it is
// served no more.
//
// Set by who watches the mounts; until then there is room. Thread-safe.
//
// That somebody has set another fs.mount-max, nothing tells: whoever is refused
// has it looked at anew, for his next call.
class MountRoom {
 public:
  explicit MountRoom(
      std::uint64_t reserve,
      std::uint64_t per_plugin = std::numeric_limits<std::uint64_t>::max())
      : reserve_(reserve), per_plugin_(per_plugin) {}

  // What looks, from any thread. Before the first check.
  void WhenFull(std::function<void()> look) { look_ = std::move(look); }

  void Set(std::uint64_t count, std::uint64_t most) {
    most_ = most;
    count_ = count;
  }
  void SetCount(std::uint64_t count) { count_ = count; }
  std::uint64_t count() const { return count_; }

  // All plugins' at once; nothing for one that could not be counted: it keeps
  // its count. The answer: how many more there can be before one of them may
  // have too many.
  using OfPlugins = std::map<std::string, std::optional<std::uint64_t>>;
  std::uint64_t SetPlugins(OfPlugins counts);

  // ResourceExhausted, naming fs.mount-max, if no more than the reserve is
  // left.
  Result<void> Check(const std::string& op, const std::string& object) const;
  // The same, and naming limits.mounts_per_plugin if the plugin has that many.
  Result<void> Check(const std::string& op, const std::string& object,
                     const std::string& plugin) const;

 private:
  const std::uint64_t reserve_;
  const std::uint64_t per_plugin_;
  std::function<void()> look_;
  std::atomic<std::uint64_t> count_ = 0;
  std::atomic<std::uint64_t> most_ = 0;  // 0: not known
  mutable std::mutex mutex_;
  OfPlugins of_plugin_;  // mutex_
};

}  // namespace mountd
