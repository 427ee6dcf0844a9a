// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>
#include <vector>

// The records of allocations, of their receipts, and of pending tear-downs.
// state.db keeps all of them, so they outlive the boot.
namespace mountd {

enum class AllocationState : int { kPrepared = 1, kReleasing = 2 };

struct AllocationRecord {
  std::string id;
  std::uint32_t uid = 0;  // its owner
  std::uint32_t gid = 0;  // the owner's primary group
  std::string scope;
  AllocationState state = AllocationState::kPrepared;
  std::uint64_t cgroup = 0;     // id of its tasks' cgroup; 0: none or unknown
  bool lease_required = false;  // publishes volumes only under a held lease
  // The group that passes through the directory as well, in this boot; 0: none.
  std::uint32_t group = 0;
};

struct ReceiptRecord {
  std::string allocation;
  std::uint32_t uid = 0;
  std::uint64_t serial = 0;
  std::uint64_t released_at_us = 0;  // since the epoch
  struct Volume {
    std::string plugin;
    std::string volume_id;
    bool unstaged = false;
    // The plugin was away, so detaching is not finished and no claim on the
    // volume may be freed.
    bool owed = false;
  };
  std::vector<Volume> volumes;
  // The names of the call that released the allocation; "": it gave none.
  std::string traceparent = {};
  std::string request_id = {};
  // Processes of the allocation's cgroup may still use mounts that were
  // removed, so no claim may be freed. The store does not keep this.
  bool has_users = false;
};

// A cgroup whose processes may still use mounts of the allocation, because
// mountd removed these without knowing that nobody has them
// (mountd/service/unchecked_mounts.h).
struct UncheckedRecord {
  std::uint64_t serial = 0;  // of the last such removal
  std::string allocation;
  std::uint32_t uid = 0;  // the allocation's owner
  std::uint64_t cgroup = 0;
};

enum class OwedKind : int {
  kRelease = 1,
  kUnpublish = 2,
  kTeardownNetwork = 3,
  kUnmount = 4,
  kUnstage = 5,
};

// A tear-down that failed. `object` is the allocation, "allocation/alias",
// "allocation/task/name", or for kUnstage "plugin/volume id".
struct OwedRecord {
  std::uint64_t id = 0;
  OwedKind kind = OwedKind::kRelease;
  std::string object;
  std::uint32_t uid = 0;
  std::string reason;
  std::uint32_t attempts = 0;
  std::uint64_t since_us = 0;
};

}  // namespace mountd
