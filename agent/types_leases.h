// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

// Leases of allocations, and the receipts of fences. Times named `_boottime`
// are microseconds of CLOCK_BOOTTIME, those named `_at` microseconds since the
// epoch.
namespace mountd::agent {

struct LeaseSpec {
  bool operator==(const LeaseSpec&) const = default;

  // The lease is for the allocation or for the scope; one of both is set.
  std::string allocation;
  std::string scope;
  // The read end of a pipe, which the caller keeps; -1: none. The lease lasts
  // while somebody has the write end open.
  int pipe = -1;
  std::uint64_t timeout_ms = 0;  // without a pipe: a heartbeat's
  bool keep = false;             // a lapse does not release the allocations
  std::string stop_tasks;        // "", "no", "freeze" or "kill"
};

struct Lease {
  bool operator==(const Lease&) const = default;

  std::string lease;
  std::uint32_t uid = 0;
  std::string allocation;
  std::string scope;
  std::string kind;  // "pipe" or "heartbeat"
  std::uint64_t timeout_ms = 0;
  std::string on_lapse;    // "release" or "keep"
  std::string stop_tasks;  // "no", "freeze" or "kill"
  std::string state;       // "held" or "lapsed"
  std::uint64_t deadline_boottime = 0;
  std::string reason;
  // The names of the last AcquireLease; "": the caller gave none.
  std::string traceparent;
  std::string request_id;
};

struct Fence {
  bool operator==(const Fence&) const = default;

  std::string allocation;
  std::string lease;
  std::uint32_t uid = 0;
  // "fencing" or "done". Claims may be freed only once this is "done" and
  // `volumes_detached` is true.
  std::string state;
  bool volumes_detached = false;
  bool lifted = false;
  std::string lapse_reason;
  std::string on_lapse;
  std::string stop_tasks;
  bool had_tasks = false;
  // Processes that had copies at the last search; "" if volumes_detached.
  std::string copies;
  std::uint32_t handed_out = 0;
  std::string error;  // of the last try
  std::uint32_t attempts = 0;
  std::string boot_id;
  std::uint64_t lapsed_boottime = 0;
  std::uint64_t lapsed_at = 0;
  std::uint64_t tasks_stopped_boottime = 0;
  std::uint64_t tasks_stopped_at = 0;
  std::uint64_t searched_boottime = 0;
  std::uint64_t searched_at = 0;
  std::uint64_t done_boottime = 0;
  std::uint64_t done_at = 0;
  // The names of the AcquireLease whose lease lapsed; "": the caller gave none.
  std::string traceparent;
  std::string request_id;
};

// A signal LeaseChanged, besides its lease and user.
struct LeaseChange {
  bool operator==(const LeaseChange&) const = default;

  std::string change;      // "lapsed" or "fenced"
  std::string reason;      // why the lease has lapsed
  std::string allocation;  // "fenced": whose fence is done
  // The names of the AcquireLease; "": the caller gave none.
  std::string traceparent;
  std::string request_id;
};

// Print the values for logs and tests, without secrets.
std::ostream& operator<<(std::ostream& out, const LeaseSpec& value);
std::ostream& operator<<(std::ostream& out, const Lease& value);
std::ostream& operator<<(std::ostream& out, const Fence& value);
std::ostream& operator<<(std::ostream& out, const LeaseChange& value);

}  // namespace mountd::agent
