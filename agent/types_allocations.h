// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "agent/types_mounts.h"
#include "agent/types_networks.h"
#include "agent/types_tasks.h"
#include "agent/types_timestamp.h"
#include "agent/types_volumes.h"

// Allocations: their options, their state, the receipts of their release, and
// Reconcile.
namespace mountd::agent {

struct AllocationOptions {
  bool operator==(const AllocationOptions&) const = default;

  std::string scope{};  // a label that the agent chooses
  // An fd of the directory of the cgroup (version 2) that the tasks are in; -1:
  // none. The caller keeps the fd and closes it.
  int cgroup = -1;
  // A gid whose processes pass through the allocation's directories as well; 0:
  // none.
  std::uint32_t group = 0;
  // PublishVolume then needs a held lease (AcquireLease).
  bool lease_required = false;
};

// The condition of a release. mountd looks and releases in one turn,
// so an agent keeps what another agent adds to the allocation meanwhile.
enum class OnlyIf {
  kAny,
  kUnused,  // without volumes, mounts and plugins of its own
  kEmpty,   // as kUnused, and without networks
};

struct ReleasedVolume {
  bool operator==(const ReleasedVolume&) const = default;

  std::string plugin;
  std::string volume;
  bool unstaged = false;
};

struct Receipt {
  bool operator==(const Receipt&) const = default;

  std::string allocation;
  Timestamp released_at;
  bool node_detached = false;
  std::vector<ReleasedVolume> volumes;
  // Volumes that are not detached yet, because their plugin is away or a
  // process has a copy. The agent must not free a claim on any volume until a
  // later GetReceipt lists none here.
  std::vector<ReleasedVolume> owed;
  std::uint64_t serial = 0;
  // The names of the call that released the allocation (CallNames); "": none.
  std::string traceparent;
  std::string request_id;
};

struct AllocationStatus {
  bool operator==(const AllocationStatus&) const = default;

  std::string id;
  std::uint32_t uid = 0;
  std::string scope;
  std::string state;
  std::string host_path;
  std::vector<NetworkStatus> networks;  // in the order of their interfaces
  std::vector<VolumeStatus> volumes;
  std::vector<MountStatus> mounts;
  std::vector<std::string> inboxes;  // tasks that have an inbox
  std::uint32_t group = 0;           // AllocationOptions::group; 0: none
};

struct AllocationEntry {
  bool operator==(const AllocationEntry&) const = default;

  std::string id;
  std::uint32_t uid = 0;
  std::string scope;
  std::string state;
};

// The result of Reconcile for one allocation.
struct ReconciledAllocation {
  bool operator==(const ReconciledAllocation&) const = default;

  std::string allocation;
  // "present", "missing", "released", "unwanted", "live", "owed".
  std::string outcome;
  std::string reason;
  // For "present" only, the parts to make again: "bare", "network/INTERFACE",
  // "volume/ALIAS", "mount/TASK/NAME".
  std::vector<std::string> needs;
  std::optional<Holders> holders{};  // for "live" only
};

struct Reconciliation {
  bool operator==(const Reconciliation&) const = default;

  std::string scope;
  std::uint64_t epoch = 0;  // grows with each start of the agent
  std::vector<std::string> wanted;
  bool dry_run = false;
};

// The result of RemoveTree and ChownTree.
struct TreeResult {
  bool operator==(const TreeResult&) const = default;

  std::uint64_t done = 0;  // files and directories
  std::uint64_t left = 0;  // ChownTree: files of other owners, unchanged
};

// Print the values for logs and tests, without secrets.
std::ostream& operator<<(std::ostream& out, const AllocationOptions& value);
std::ostream& operator<<(std::ostream& out, const ReleasedVolume& value);
std::ostream& operator<<(std::ostream& out, const Receipt& value);
std::ostream& operator<<(std::ostream& out, const AllocationStatus& value);
std::ostream& operator<<(std::ostream& out, const AllocationEntry& value);
std::ostream& operator<<(std::ostream& out, const ReconciledAllocation& value);
std::ostream& operator<<(std::ostream& out, const Reconciliation& value);
std::ostream& operator<<(std::ostream& out, const TreeResult& value);

}  // namespace mountd::agent
