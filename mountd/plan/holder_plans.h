// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "mountd/plan/plugin_plans.h"
#include "mountd/plan/values.h"

// The plans that look for processes: for holders of a mount, for processes in a
// cgroup or network namespace, and for holders of copies.
namespace mountd::exec {

enum class HolderScope : std::uint32_t {
  kCgroup = 1,  // the processes of `cgroup` and of its descendants
  kNode = 2,    // all processes
};

// Looks for at most `budget_ms` for processes that use the mount or a copy of
// it. If `count` is not 0, looks for processes that have one of the handed-out
// mounts, in scope kNode only.
inline constexpr std::size_t kMaxHandedOut = 32;
struct HoldersPlan {
  std::uint64_t mount_id = 0;  // 0: the mounts of `handed_out`
  HolderScope scope = HolderScope::kCgroup;
  std::uint32_t budget_ms = 0;
  std::uint64_t cgroup = 0;  // 0: none, in scope kNode only
  std::uint32_t count = 0;
  std::array<HandedOutMount, kMaxHandedOut> handed_out{};
};
inline constexpr std::uint32_t kMaxHolderBudgetMs = 60'000;

// Looks for the processes in `cgroup` or beneath it, or in the network
// namespace, for at most `budget_ms`. At least one of the two is given; 0 means
// none.
struct ProcessesPlan {
  std::uint64_t cgroup = 0;
  std::uint64_t netns_inode = 0;
  std::uint32_t budget_ms = 0;
};

// Looks for processes that have copies, for at most `budget_ms`. The plan looks
// for copies of the mounts `mount_ids`, or of the one volume that is published
// at `volume`; `before` is that volume's file system as an earlier plan found
// it.
//
// kCgroup: looks only at the processes of `cgroup` and beneath it. With
// `cgroup` 0 and a volume, only reports the volume's file system. kNode: looks
// at all processes. If mountd has mounted the same source for other allocations
// too, only processes of the cgroup count.
// others too, only the cgroup's processes count.
inline constexpr std::size_t kMaxCopiedMounts = 128;
struct CopiesPlan {
  HolderScope scope = HolderScope::kCgroup;
  std::uint32_t budget_ms = 0;
  std::uint64_t cgroup = 0;  // 0: none
  std::uint32_t count = 0;
  std::uint32_t has_volume = 0;
  std::array<std::uint64_t, kMaxCopiedMounts> mount_ids{};
  VolumeDirPlan volume;  // its publish directory
  FileSystemPlan before;
};

enum class HolderKind : std::uint8_t {
  kCwd = 1,
  kRoot = 2,
  kExe = 3,
  kFd = 4,
  kMap = 5,  // a file mapped into memory
  // FindProcesses only:
  kMember = 6,   // is in the cgroup
  kNetwork = 7,  // is in the network namespace
  // FindCopies only, except that FindHolders reports kMount for a handed-out
  // mount:
  kMount = 8,       // has a copy or a handed-out mount in its mount namespace
  kDevice = 9,      // has the block device open
  kNamespace = 10,  // pid 0: a mount namespace without a process has a copy
};

// One process, and the first use that was found.
struct Holder {
  std::uint32_t pid = 0;
  std::uint32_t uid = 0;  // real
  HolderKind kind = HolderKind::kCwd;
  std::uint8_t is_copy = 0;     // holds a copy in its own mount namespace
  std::uint8_t in_cgroup = 0;   // in the plan's cgroup
  std::int32_t fd = -1;         // kFd only
  std::uint32_t mount = 0;      // its index in the plan's `handed_out`
  std::array<char, 16> comm{};  // with a NUL; any bytes
};

inline constexpr std::size_t kMaxHolders = 32;

struct HoldersState {
  std::uint32_t count = 0;
  std::uint32_t more = 0;  // 1: others did not fit here
  // 1: time ran out, or a process could not be read
  std::uint32_t incomplete = 0;
  // The first reason for `incomplete` as an errno: ETIME, or the errno for the
  // process `unseen_pid`. 0: another reason or none.
  std::uint32_t unseen_error = 0;
  std::uint32_t unseen_pid = 0;
  // 1: only init could not be read, which some machines hide from everybody.
  std::uint32_t init_unseen = 0;
  // A bit for each of the plan's mounts that somebody has, even if `holders`
  // has no room for the process.
  std::uint64_t held = 0;
  std::array<Holder, kMaxHolders> holders{};
};

struct CopiesState {
  HoldersState holders;
  FileSystemPlan found;  // of the volume; device 0: unknown
};

}  // namespace mountd::exec
