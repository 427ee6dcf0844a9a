// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>
#include <tuple>

#include "mountd/plan/values.h"

// The records of leases and of fences. state.db keeps them, so they outlive the
// boot. A time `boot_us` is in microseconds of CLOCK_BOOTTIME, in the boot
// `boot_id`. This clock counts while the machine is suspended, and never jumps.
// A time `wall_us` is in microseconds since the epoch.
namespace mountd {

// A user's lease. Another user may have a lease of the same name.
struct LeaseKey {
  std::uint32_t uid = 0;
  std::string name;
  friend bool operator<(const LeaseKey& a, const LeaseKey& b) {
    return std::tie(a.uid, a.name) < std::tie(b.uid, b.name);
  }
  friend bool operator==(const LeaseKey&, const LeaseKey&) = default;
};

enum class LeaseKind : int {
  kPipe = 1,       // lasts while somebody has the write end of a pipe
  kHeartbeat = 2,  // lasts until its deadline, which each renewal moves
};

enum class OnLapse : int {
  kRelease = 1,  // the fence releases the allocations
  kKeep = 2,     // the allocations stay, fenced
};

enum class LeaseState : int { kHeld = 1, kLapsed = 2 };

struct LeaseRecord {
  LeaseKey key;
  // Either one allocation, or a scope of the user's allocations.
  std::string allocation;
  std::string scope;
  LeaseKind kind = LeaseKind::kPipe;
  std::uint64_t timeout_ms = 0;  // kHeartbeat
  OnLapse on_lapse = OnLapse::kRelease;
  exec::TaskStop stop_tasks = exec::TaskStop::kNo;
  LeaseState state = LeaseState::kHeld;
  std::string boot_id;  // of the times below
  // kHeartbeat: the time when the lease lapses. kPipe: after a restart of
  // mountd, the time when it lapses unless the agent acquires it again; 0: no
  // restart since.
  std::uint64_t deadline_boot_us = 0;
  std::string reason;  // kLapsed: why
  // The names of the last call that acquired the lease; "": it gave none.
  std::string traceparent = {};
  std::string request_id = {};
};

struct FenceTime {
  std::uint64_t boot_us = 0;  // 0: not yet
  std::uint64_t wall_us = 0;
  friend bool operator==(const FenceTime&, const FenceTime&) = default;
};

enum class FenceState : int {
  kBegun = 1,  // an intent: mountd repeats the steps until the fence is done
  kDone = 2,   // a receipt
};

// The fence of one allocation. Written in the state kBegun before any step, so
// a kill at any moment leaves an intent.
struct FenceRecord {
  std::string allocation;
  LeaseKey lease;
  std::string boot_id;
  OnLapse on_lapse = OnLapse::kRelease;
  exec::TaskStop stop_tasks = exec::TaskStop::kNo;
  std::uint64_t cgroup = 0;  // of the tasks to stop, in the boot `boot_id`
  FenceState state = FenceState::kBegun;
  // True if the lease was acquired again, so that the allocation may be used.
  bool lifted = false;
  std::string lapse_reason;
  FenceTime lapsed;
  FenceTime tasks_stopped;
  FenceTime searched;  // for tasks' copies
  FenceTime done;
  bool had_tasks = false;  // there were processes to stop
  std::string copies;      // processes with copies, as text; "": none found
  std::uint32_t handed_out = 0;  // descriptors that processes still have
  bool volumes_detached = false;
  std::string error;  // kBegun: why the last try failed
  std::uint32_t attempts = 0;
  // The names of the call that acquired the lease.
  std::string traceparent = {};
  std::string request_id = {};
};

}  // namespace mountd
