// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace mountd::dbus {

// The reasons for which mountd ends or refuses a connection.
enum class PeerDrop {
  kHandshake,   // no handshake in time
  kUnread,      // does not read its answers
  kUnfinished,  // does not finish a message in time
  kTooLarge,    // a message, or its user's unfinished messages together
  kFds,         // more fds than a message, or its user, may have here
  kMalformed,   // a malformed message
  kRefused,     // too many connections, or fds that cannot be closed
};

// Counts dropped peers of all users together since the start, by reason. Runs
// on the loop's thread.
class PeerDrops {
 public:
  static constexpr std::array<const char*, 7> kNames = {
      "handshake", "unread",    "unfinished", "too-large",
      "fds",       "malformed", "refused"};

  void Count(PeerDrop why) { ++counts_.at(static_cast<std::size_t>(why)); }
  // Returns all reasons, also those with a count of 0.
  std::map<std::string, std::uint64_t> All() const {
    std::map<std::string, std::uint64_t> all;
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      all[kNames.at(i)] = counts_.at(i);
    }
    return all;
  }

 private:
  std::array<std::uint64_t, kNames.size()> counts_{};
};

}  // namespace mountd::dbus
