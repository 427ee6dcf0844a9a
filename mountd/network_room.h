// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "mountd/base/result.h"
#include "mountd/config.h"
#include "mountd/store/records.h"

namespace mountd {

// How much of what all users share each user's networks take: bytes of the base
// for hosts, hostname and resolv.conf, and network namespaces of the kernel's.
// Any user with a rule makes both, so that only these bounds keep one user from
// taking what the others need.
//
// Thread-safe.
class NetworkRoom {
 public:
  explicit NetworkRoom(const LimitsConfig& limits) : limits_(limits) {}

  // Charges the record to `uid`, in place of what was charged for it before.
  // ResourceExhausted, with the limit's name, if the user would have more than
  // limits.network_file_bytes_per_uid or limits.namespaces_per_uid; then the
  // earlier charge stays.
  Result<void> Take(std::uint32_t uid, const NetworkRecord& record);
  // The same for what is there already, whatever the limits are by now.
  void TakeRecorded(std::uint32_t uid, const NetworkRecord& record);
  // None is success.
  void Free(const NetworkRecord& record);

 private:
  struct Use {
    std::uint64_t file_bytes = 0;
    std::uint32_t namespaces = 0;
  };
  // The networks of one allocation share its namespace.
  struct Allocation {
    std::uint32_t uid = 0;
    std::map<std::string, Use> networks;  // by interface
  };

  static Use UseOf(const NetworkRecord& record);
  static Use Sum(const Allocation& allocation);
  // What the user would have with `changed` in the place of what is known of
  // that allocation. With mutex_ held.
  Use After(const std::string& id, const Allocation& changed);
  void Put(const std::string& id, Allocation changed);

  const LimitsConfig& limits_;
  std::mutex mutex_;
  std::map<std::string, Allocation> allocations_;  // mutex_
  std::map<std::uint32_t, Use> users_;             // mutex_
};

}  // namespace mountd
