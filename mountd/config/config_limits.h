// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>

// The sections [limits] and [timeouts] of mountd.toml, with their defaults.
namespace mountd {

struct LimitsConfig {
  std::uint32_t peers_per_uid = 32;
  std::uint32_t allocations_per_uid = 1000;
  std::uint32_t operations_per_uid = 64;  // running at once
  std::uint32_t plugins_per_uid = 64;
  std::uint32_t rpcs_per_plugin = 32;  // of the Node service, of a user at once
  std::uint32_t mounts_per_uid = 10'000;
  std::uint32_t mounts_per_allocation = 256;
  std::uint32_t mounts_per_plugin = 10'000;  // below its directory
  // Callers' own directories that are mounted host-to-task. Each multiplies the
  // mounts that the user makes below its directory.
  std::uint32_t propagated_directories_per_uid = 16;
  std::uint32_t inboxes_per_allocation = 64;
  std::uint32_t leases_per_uid = 1000;
  // The most for one mount; 0: tmpfs is not allowed.
  std::uint64_t tmpfs_bytes = 16U << 20U;
  std::uint64_t tmpfs_bytes_per_allocation = 64U << 20U;
  // For hosts, hostname and resolv.conf, in whole pages. A thousand allocations
  // fit with a page for each file, and five such users fit into the base.
  std::uint64_t network_file_bytes_per_uid = 12U << 20U;
  // Network namespaces made for the user.
  std::uint32_t namespaces_per_uid = 512;
  std::uint32_t mount_executors = 4;
  // Free mounts below fs.mount-max, kept for others.
  std::uint32_t mount_reserve = 1000;
  friend bool operator==(const LimitsConfig&, const LimitsConfig&) = default;
};

struct TimeoutsConfig {
  std::chrono::milliseconds plan{10'000};          // one executor plan
  std::chrono::milliseconds rpc{60'000};           // one try of a CSI RPC
  std::chrono::milliseconds rpc_retries{120'000};  // all tries of one
  // Then the call returns InProgress.
  std::chrono::milliseconds patience{20'000};
  std::chrono::milliseconds probe_starting{5'000};  // until a plugin is ready
  std::chrono::milliseconds probe_ready{30'000};
  // The time that a new plugin has to become ready.
  std::chrono::milliseconds plugin_health{30'000};
  std::chrono::milliseconds probe_timeout{5'000};
  std::chrono::milliseconds probe_mounts{30'000};   // between probes of mounts
  std::chrono::milliseconds probe_volumes{60'000};  // of their conditions
  std::chrono::milliseconds probe_answer{2'000};  // then the file system hangs
  std::chrono::milliseconds cni{30'000};  // one operation, its undo included
  // After a restart of mountd the holder of a pipe has so long to acquire its
  // lease again.
  std::chrono::milliseconds lease_grace{30'000};
  // mountd warns of a tear-down that is pending for longer.
  std::chrono::milliseconds owed_warning{300'000};
  friend bool operator==(const TimeoutsConfig&,
                         const TimeoutsConfig&) = default;
};

}  // namespace mountd
