// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/types_tasks.h"

// Mounts: the request of BindMount, the ways to unmount, and a mount that an
// allocation has.
namespace mountd::agent {

enum class SourceType { kHostVolume, kVolume, kTmpfs, kFilesystem, kDirectory };
enum class Propagation { kPrivate, kHostToTask, kBidirectional };

constexpr std::string_view SourceTypeName(SourceType type) {
  switch (type) {
    case SourceType::kHostVolume:
      return "host";
    case SourceType::kTmpfs:
      return "tmpfs";
    case SourceType::kFilesystem:
      return "filesystem";
    case SourceType::kDirectory:
      return "directory";
    case SourceType::kVolume:
      break;
  }
  return "volume";
}

// Options of a tmpfs. mountd's defaults for absent fields: as many inodes as
// the size has KiB, mode 0700, and the allocation's owner.
struct TmpfsOptions {
  bool operator==(const TmpfsOptions&) const = default;

  std::uint64_t size = 0;  // bytes; required
  std::optional<std::uint64_t> inodes{};
  std::optional<std::uint32_t> mode{};
  std::optional<std::uint32_t> uid{};
  std::optional<std::uint32_t> gid{};
  bool noswap = false;
};

// Shows files of the `count` ids from `on_disk` on as files of the ids from
// `shown` on, for users and groups alike.
struct IdExtent {
  bool operator==(const IdExtent&) const = default;

  std::uint32_t on_disk = 0;
  std::uint32_t shown = 0;
  std::uint32_t count = 1;
};

struct BindMountSpec {
  bool operator==(const BindMountSpec&) const = default;

  std::string task{};
  std::string name{};
  SourceType source_type = SourceType::kVolume;
  // The alias of a published volume, the name of a host volume or of a file
  // system of the configuration, or "" for a tmpfs or a directory.
  std::string source{};
  bool read_only = false;
  Propagation propagation = Propagation::kPrivate;
  std::string task_path{};  // mountd returns it unchanged in MountConfig
  bool noexec = false;
  bool noatime = false;
  std::vector<IdExtent> id_map{};  // at most four
  // For users and for groups alone, instead of `id_map`.
  std::vector<IdExtent> uid_map{};
  std::vector<IdExtent> gid_map{};
  std::optional<TmpfsOptions> tmpfs{};  // of kTmpfs only
  // An fd of the directory to mount on instead of the inbox; -1: the inbox. The
  // caller keeps the fd and closes it.
  int directory = -1;
  // A pidfd of a process of a container, to mount at `task_path` in that
  // container's mount namespace instead of the inbox; -1: none. The caller
  // keeps the fd and closes it.
  int container = -1;
  bool nosymfollow = false;  // links in the mount are not followed
  // An fd of the caller's own directory to mount, for kDirectory only. The
  // caller keeps the fd and closes it.
  int source_directory = -1;
};

// A task's inbox. The task driver mounts it into the task once.
struct InboxConfig {
  bool operator==(const InboxConfig&) const = default;

  std::string host_path;
  std::string propagation;
  std::string required_rootfs_propagation;
};

enum class UnmountMode { kPlain, kDetach, kForce, kAbort };

// Says what a tear-down does if a process has a copy of its own of the mount or
// volume, because unmounting does not take that copy from the process.
// - kRefuse: Busy with names of such processes, and nothing has changed.
// - kWait: waits until there are no copies.
// - kIgnore: continues. A volume with copies counts as detached
//   (Receipt::node_detached) only when the last copy has gone. A host volume
//   counts as detached only when the allocation's cgroup has no process.
enum class OnTasks { kRefuse, kWait, kIgnore };

// The mount that a task driver inserts to give it to the task.
struct MountConfig {
  bool operator==(const MountConfig&) const = default;

  std::string host_path;
  std::string task_path;
  bool read_only = false;
  std::string propagation;
  std::string required_rootfs_propagation;
  std::uint64_t mount_id = 0;
  std::uint64_t peer_group = 0;
  std::uint64_t master = 0;
};

struct RepairedMount {
  bool operator==(const RepairedMount&) const = default;

  MountConfig config;
  std::uint64_t replaced_mount_id = 0;
  std::optional<Holders> old_holders{};  // only if the allocation has a cgroup
  bool reaches_task = false;
  std::string reason;  // why it does not reach the task
};

struct ReplacedMount {
  bool operator==(const ReplacedMount&) const = default;

  MountConfig config;
  std::uint64_t replaced_mount_id = 0;   // 0: the mount was as asked already
  std::optional<Holders> old_holders{};  // only if the allocation has a cgroup
};

struct MountStatus {
  bool operator==(const MountStatus&) const = default;

  std::string task;
  std::string name;
  std::string source_type;
  std::string source;
  std::string state;
  MountConfig config;
  std::string health{};  // "healthy", "dead", "hung", "unknown"
};

// Puts the mount into the list of a task's mounts. Replaces an entry with the
// same host_path or task_path, so that the list has each mount once, however
// often the agent repeats a call. Returns whether the list has changed. Leaves
// out a mount in a container, which has no host_path, because the runtime need
// not mount it.
bool InsertMount(const MountConfig& config, std::vector<MountConfig>& mounts);

// Print the values for logs and tests, without secrets.
std::ostream& operator<<(std::ostream& out, const TmpfsOptions& value);
std::ostream& operator<<(std::ostream& out, const IdExtent& value);
std::ostream& operator<<(std::ostream& out, const BindMountSpec& value);
std::ostream& operator<<(std::ostream& out, const InboxConfig& value);
std::ostream& operator<<(std::ostream& out, const MountConfig& value);
std::ostream& operator<<(std::ostream& out, const RepairedMount& value);
std::ostream& operator<<(std::ostream& out, const ReplacedMount& value);
std::ostream& operator<<(std::ostream& out, const MountStatus& value);

}  // namespace mountd::agent
