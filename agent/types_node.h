// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "agent/types_timestamp.h"

// The node: its capabilities, the operations under way, their names, and the
// pending tear-downs.
namespace mountd::agent {

struct OwedTeardown {
  bool operator==(const OwedTeardown&) const = default;

  std::uint64_t id = 0;
  std::string kind;
  std::string object;
  std::string reason;
  std::uint32_t attempts = 0;
  Timestamp since;
};

// The names that a caller gives its calls, so that people find the calls in
// mountd's log, signals and receipts, and in a trace. mountd answers
// InvalidArgument for an invalid name.
struct CallNames {
  bool operator==(const CallNames&) const = default;

  // W3C Trace Context's traceparent, "00-<32 hex>-<16 hex>-01"; "": none. CSI
  // and CNI plugins get it, too, with mountd's span as the parent.
  std::string traceparent{};
  // 1 to 128 printable ASCII characters without a space; "": none.
  std::string request_id{};
};

// One piece of work, for a trace: an operation, or a step of it.
struct OperationSpan {
  bool operator==(const OperationSpan&) const = default;

  std::string name;
  std::string kind;            // "server", "internal" or "client"
  std::string span_id;         // 16 hex digits
  std::string parent_span_id;  // 16 hex digits
  std::uint64_t start_ns = 0;  // since the epoch
  std::uint64_t end_ns = 0;
  std::string error;  // "Unavailable", ...; or ""
};

// An operation under way.
struct OperationStatus {
  bool operator==(const OperationStatus&) const = default;

  std::string id;  // for Cancel
  std::string method;
  std::string object;  // operations on the same object run one after the other
  std::uint32_t uid = 0;
  std::chrono::milliseconds elapsed{0};
  std::uint32_t waiters = 0;  // calls that wait for it
  bool cancelled = false;
  // "queue", "stage", "cni-add", ...; "end": the operation is over.
  std::string step;
  // Counts mounts, volumes, networks, allocations or files.
  std::uint64_t done = 0;
  std::uint64_t total = 0;  // 0: unknown
  // The number of the try, from 1, of a plugin's call; 0: no such call.
  std::uint32_t attempt = 0;
  std::string error;  // why the previous try failed: "Unavailable", ...; or ""
  // The names that the first caller gave the call (CallNames); "": none.
  std::string traceparent;
  std::string request_id;
  std::string span_id;  // the operation's own, if it has a traceparent
  // At the end of an operation whose traceparent has the flag "sampled": the
  // operation, and then its steps.
  std::vector<OperationSpan> spans;
  std::uint64_t spans_left_out = 0;  // steps beyond those that mountd keeps
};

// The pending tear-downs of all users.
struct OwedSummary {
  bool operator==(const OwedSummary&) const = default;

  std::uint32_t count = 0;
  Timestamp since;  // when the oldest failed first; the epoch if there is none
};

struct AddressUsage {
  bool operator==(const AddressUsage&) const = default;

  std::uint32_t capacity = 0;
  std::uint32_t free = 0;
};

struct Capabilities {
  bool operator==(const Capabilities&) const = default;

  std::string version;
  std::string kernel;
  std::vector<std::string> network_modes;
  std::map<std::string, AddressUsage> addresses;  // by network
  struct HostPorts {
    bool operator==(const HostPorts&) const = default;

    std::uint16_t first = 0;
    std::uint16_t last = 0;
    std::uint32_t free = 0;  // no allocation uses them
  };
  std::vector<HostPorts> host_ports;               // that the caller may map
  std::map<std::string, std::string> cni_plugins;  // plugin -> its release
  std::vector<std::string> propagation;
  std::vector<std::string> source_types;
  std::map<std::string, bool> features;
  std::map<std::string, std::string> missing;  // feature -> reason
  // Executors that hang in the kernel and that mountd has abandoned.
  std::uint32_t stuck_executors = 0;
  // Files of mountd's stores that the last start of mountd found damaged.
  std::vector<std::string> stores_set_aside;
  // The file of the mount namespace in which mountd's mounts are, for setns(2).
  // "": they are in the host's.
  std::string mount_namespace;
  // From the configuration: limits.mount_reserve, timeouts.owed_warning_ms.
  std::uint32_t mount_reserve = 1000;
  std::chrono::milliseconds owed_warning{300'000};
  bool administrator = false;  // the caller is an administrator
  bool rules = false;          // a rule names the caller
};

struct MethodStatistics {
  bool operator==(const MethodStatistics&) const = default;

  std::string method;
  std::uint64_t calls = 0;
  std::uint64_t errors = 0;
  std::uint64_t p50_us = 0;
  std::uint64_t p99_us = 0;
};

// Print the values for logs and tests, without secrets.
std::ostream& operator<<(std::ostream& out, const OwedTeardown& value);
std::ostream& operator<<(std::ostream& out, const OperationStatus& value);
std::ostream& operator<<(std::ostream& out, const OwedSummary& value);
std::ostream& operator<<(std::ostream& out, const AddressUsage& value);
std::ostream& operator<<(std::ostream& out, const Capabilities& value);
std::ostream& operator<<(std::ostream& out,
                         const Capabilities::HostPorts& value);
std::ostream& operator<<(std::ostream& out, const MethodStatistics& value);
std::ostream& operator<<(std::ostream& out, const CallNames& value);
std::ostream& operator<<(std::ostream& out, const OperationSpan& value);

}  // namespace mountd::agent
