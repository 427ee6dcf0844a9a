// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "mountd/base/result.h"
#include "mountd/config/config.h"
#include "mountd/store/records.h"

namespace mountd {

// Counts each user's share of two common resources: bytes of the base for
// hosts, hostname and resolv.conf, and the kernel's network namespaces. Any
// user with a rule can use both, so only these bounds keep one user from taking
// all.
//
// Thread-safe.
class NetworkRoom {
 public:
  explicit NetworkRoom(const LimitsConfig& limits) : limits_(limits) {}

  // Charges the record to `uid`, or to the user who was charged first for the
  // same allocation. Replaces the earlier charge for the record.
  // ResourceExhausted, with the limit's name, if the user would exceed
  // limits.network_file_bytes_per_uid or limits.namespaces_per_uid; the earlier
  // charge then stays.
  Result<void> Take(std::uint32_t uid, const NetworkRecord& record);
  // Charges a network that exists already, whatever the limits are now.
  void TakeRecorded(std::uint32_t uid, const NetworkRecord& record);
  // Removes the charge. Success if there is none.
  void Free(const NetworkRecord& record);

 private:
  struct Use {
    std::uint64_t file_bytes = 0;
    std::uint32_t namespaces = 0;
  };
  // One allocation. Its networks share a namespace.
  struct Allocation {
    std::uint32_t uid = 0;
    std::map<std::string, Use> networks;  // by interface
  };

  static Use UseOf(const NetworkRecord& record);
  static Use Sum(const Allocation& allocation);
  // Returns what the user would use if `changed` replaced the allocation's
  // present state. The caller holds mutex_.
  Use After(const std::string& id, const Allocation& changed);
  void Put(const std::string& id, Allocation changed);

  const LimitsConfig& limits_;
  std::mutex mutex_;
  std::map<std::string, Allocation> allocations_;  // mutex_
  std::map<std::uint32_t, Use> users_;             // mutex_
};

}  // namespace mountd
