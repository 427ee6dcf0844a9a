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
  // How many RPCs of one plugin's Node service a user may have under way.
  std::uint32_t rpcs_per_plugin = 32;
  std::uint32_t mounts_per_uid = 10'000;
  std::uint32_t mounts_per_allocation = 256;
  std::uint32_t mounts_per_plugin = 10'000;  // below the plugin's directory
  // How many of a user's own directories may be mounted host-to-task. Each such
  // mount repeats every mount that the user makes below that directory.
  std::uint32_t propagated_directories_per_uid = 16;
  std::uint32_t inboxes_per_allocation = 64;
  std::uint32_t leases_per_uid = 1000;
  // The most bytes of one tmpfs; 0: no tmpfs is allowed.
  std::uint64_t tmpfs_bytes = 16U << 20U;
  std::uint64_t tmpfs_bytes_per_allocation = 64U << 20U;
  // The most bytes of a user's hosts, hostname and resolv.conf files, in whole
  // pages. The default holds one page for each file of a thousand allocations.
  // The files of five such users fit into the base.
  std::uint64_t network_file_bytes_per_uid = 12U << 20U;
  // Network namespaces made for the user.
  std::uint32_t namespaces_per_uid = 512;
  std::uint32_t mount_executors = 4;
  // mountd leaves this many of the mounts that fs.mount-max allows to others.
  std::uint32_t mount_reserve = 1000;
  friend bool operator==(const LimitsConfig&, const LimitsConfig&) = default;
};

struct TimeoutsConfig {
  std::chrono::milliseconds plan{10'000};          // one executor plan
  std::chrono::milliseconds rpc{60'000};           // one try of a CSI RPC
  std::chrono::milliseconds rpc_retries{120'000};  // all tries of one
  // After this time a call returns InProgress.
  std::chrono::milliseconds patience{20'000};
  std::chrono::milliseconds probe_starting{5'000};  // until a plugin is ready
  std::chrono::milliseconds probe_ready{30'000};
  // The time that a new plugin has to become ready.
  std::chrono::milliseconds plugin_health{30'000};
  std::chrono::milliseconds probe_timeout{5'000};
  std::chrono::milliseconds probe_mounts{30'000};  // between probes of mounts
  // Between probes of volumes' conditions.
  std::chrono::milliseconds probe_volumes{60'000};
  // A file system that takes longer hangs.
  std::chrono::milliseconds probe_answer{2'000};
  std::chrono::milliseconds cni{30'000};  // one operation, its undo included
  // After a restart of mountd, an agent whose lease is tied to a pipe must
  // acquire the lease again within this time.
  std::chrono::milliseconds lease_grace{30'000};
  // mountd warns of a tear-down that is pending for longer.
  std::chrono::milliseconds owed_warning{300'000};
  friend bool operator==(const TimeoutsConfig&,
                         const TimeoutsConfig&) = default;
};

}  // namespace mountd
