// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "mountd/base/names.h"
#include "mountd/plan/attributes.h"

// The values that plans, replies and the stores' records share. Each is a plain
// struct, a number or an enum, and its bytes on the wire are its bytes in
// memory, because both ends of an executor's socket are of one build. The
// stores keep the numbers of the enums, so no number ever changes.
namespace mountd::exec {

// A validated name (base/names.h), by value.
struct WireName {
  std::uint8_t size = 0;
  std::array<char, kMaxNameBytes> bytes{};

  std::string_view view() const {
    return {bytes.data(), size <= bytes.size() ? size : 0U};
  }
};

inline std::string Text(const WireName& name) {
  return std::string(name.view());
}

// The propagation between a source and its target, as users name it: "private"
// (rprivate), "host-to-task" (rslave), "bidirectional" (rshared).
enum class Propagation : std::uint32_t {
  kPrivate = 1,
  kHostToTask = 2,
  kBidirectional = 3,
};

enum class SourceKind : std::uint32_t {
  kHostVolume = 1,       // `host_volume`, as declared in the root-owned config
  kPublishedVolume = 2,  // published by `plugin` for (allocation, volume)
  kTmpfs = 3,            // a new, empty tmpfs, as `tmpfs` says
  kFilesystem = 4,       // `filesystem`, as declared there
  kDirectory = 5,        // a directory that the caller passed: the plan's fd
};

// A range of an idmapped mount (mount_setattr(2), Linux 5.12). Files of the
// `count` ids from `on_disk` on show as files of the ids from `shown` on.
struct IdExtent {
  std::uint32_t on_disk = 0;
  std::uint32_t shown = 0;
  std::uint32_t count = 0;
  friend bool operator==(const IdExtent&, const IdExtent&) = default;
};

inline constexpr std::size_t kMaxIdExtents = 4;

// A map of ids. Without extents ids show unchanged. `extents` maps users and,
// unless there are extents in `gids`, groups as well.
struct IdMapPlan {
  std::uint32_t count = 0;
  std::array<IdExtent, kMaxIdExtents> extents{};
  std::uint32_t gid_count = 0;
  std::array<IdExtent, kMaxIdExtents> gids{};
  friend bool operator==(const IdMapPlan&, const IdMapPlan&) = default;
};

// A tmpfs(5) for one mount alone. Its memory is bounded twice: `bytes` bounds
// the data and `inodes` the kernel's memory for files.
struct TmpfsPlan {
  std::uint64_t bytes = 0;
  std::uint64_t inodes = 0;
  std::uint32_t mode = 0;  // of its root: permission bits and the sticky one
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint32_t no_swap = 0;  // Linux 6.4
  friend bool operator==(const TmpfsPlan&, const TmpfsPlan&) = default;
};

inline constexpr std::uint32_t kTmpfsModes = 01777;
// The least size is a page. The kernel itself counts at least 1024 bytes for a
// file.
inline constexpr std::uint64_t kMinTmpfsBytes = 4096;
inline constexpr std::uint64_t kTmpfsBytesPerInode = 1024;
// chown(2) reads this id as "leave it unchanged", so it is no user's id.
inline constexpr std::uint32_t kNoId = 0xFFFFFFFF;

// How the tasks of an allocation are stopped. Each includes those before it.
enum class TaskStop : std::uint32_t {
  kNo = 0,
  kFreeze = 1,  // cgroup.freeze; the cgroup's owner can thaw them again
  kKill = 2,    // cgroup.kill (Linux 5.14)
};

// The caller who passed a directory, as the kernel told mountd. The executor
// looks up in its own config where that caller's directories may lie. `gids`
// holds the primary group and then the groups that some rule names, as many as
// fit.
struct CallerPlan {
  std::uint32_t uid = 0;
  std::uint32_t gid_count = 0;
  std::array<std::uint32_t, 16> gids{};
};

// Where a mount is attached. `target` names the mount for every kind.
enum class TargetKind : std::uint32_t {
  kInbox = 1,      // at the target itself
  kDirectory = 2,  // on a directory that the caller passed: the plan's fd
  kContainer = 3,  // in a container's mount namespace: the fd is a pidfd of it
};

// How to unmount a mount that is used (umount2(2)).
enum class UnmountMode : std::uint32_t {
  kPlain = 0,   // fails with Busy
  kDetach = 1,  // removes it from the tree; processes that use it keep it
  kForce = 2,   // lets the file system give up pending requests first
  kAbort = 3,   // cuts the FUSE connection first, for all of its mounts
};

enum Protocol : std::uint8_t { kTcp = 1, kUdp = 2, kSctp = 4 };
inline constexpr std::uint8_t kAllProtocols = kTcp | kUdp | kSctp;

enum NetworkFlag : std::uint32_t {
  kIsolated = 1U << 0U,  // no traffic to or from other allocations
  // A default route. Without it, only routes to the network's own ranges.
  kDefaultRoute = 1U << 1U,
};
inline constexpr std::uint32_t kAllNetworkFlags = kIsolated | kDefaultRoute;

// Identifies a mount of which mountd handed out an fd. Another mount namespace
// shows only the reusable id of a mount attached there.
struct HandedOutMount {
  std::uint64_t mount_id = 0;  // 0: the kernel has no unique ids
  std::uint64_t reusable_id = 0;
  std::uint64_t device = 0;  // of its file system, as mountinfo has it
};

// The identity of a volume, as the kernel shows it while the volume is mounted.
// By this identity mountd recognises the volume later, when none of mountd's
// mounts shows the volume any more.
inline constexpr std::size_t kMaxFileSystemRoot = 1024;
inline constexpr std::size_t kMaxFileSystemSource = 256;
struct FileSystemPlan {
  std::uint64_t device = 0;     // as st_dev; 0: unknown
  std::uint64_t node = 0;       // of a block device, as st_rdev; 0: not one
  std::array<char, 32> type{};  // "ext4", with a NUL
  // The part of the file system that is the volume, with a NUL; "/": all of it.
  std::array<char, kMaxFileSystemRoot> root{};
  // The mounts' source, with a NUL; "": unknown or too long.
  std::array<char, kMaxFileSystemSource> source{};
  friend bool operator==(const FileSystemPlan&,
                         const FileSystemPlan&) = default;
};

enum class MountHealth : std::uint32_t {
  kUnknown = 0,
  kHealthy = 1,
  kDead = 2,  // its file system returns an error
  kHung = 3,  // it does not answer within timeouts.probe_answer
};

}  // namespace mountd::exec
