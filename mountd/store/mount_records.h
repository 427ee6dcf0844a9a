// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "mountd/plan/values.h"
#include "mountd/store/mount_wish.h"

// The records of mounts, inboxes and handed-out descriptors. boot.db keeps all
// of them, so they end with the boot.
namespace mountd {

enum class MountRecordState : int {
  kAttaching = 1,
  kAttached = 2,
  kDetaching = 3,
  kLost = 4,       // was mountd's; the target now has another mount or none
  kReplacing = 5,  // a swap by another mount was under way
  kFound = 6,      // was found without a record; its source is unknown
};

struct MountRecord {
  std::string allocation;
  std::string task;
  std::string name;
  std::uint32_t uid = 0;  // the allocation's owner
  MountWish wish{};
  MountRecordState state = MountRecordState::kAttaching;
  std::uint64_t mount_id = 0;
  std::uint64_t peer_group = 0;
  std::uint64_t master = 0;
  std::uint64_t source_group = 0;  // the source's peer group at the bind
};

// An inbox of a task that stays even when it is empty.
struct InboxRecord {
  std::string allocation;
  std::string task;
};

enum class HandedOutKind : int { kDetached = 1, kInbox = 2, kNamespace = 3 };

// A mount that a caller has as an fd, or a network namespace that a caller has
// as an fd; then `mount` is the mount of its pin. No unmount removes it from
// processes that have the fd. So the record outlives the allocation, and mountd
// removes the record when no process has the mount.
struct HandedOutRecord {
  exec::HandedOutMount mount;
  std::string allocation;
  std::uint32_t uid = 0;  // the allocation's owner
  HandedOutKind kind = HandedOutKind::kDetached;
  exec::SourceKind source_kind = exec::SourceKind::kHostVolume;  // kDetached
  std::string name{};  // the source's or the task's name; "" for a namespace
};

// A mount that mountd made once for all users of a source: a host volume's
// anchor, or a file system.
struct AnchorKey {
  exec::SourceKind kind = exec::SourceKind::kHostVolume;
  std::string source;
  friend auto operator<=>(const AnchorKey&, const AnchorKey&) = default;
};

}  // namespace mountd
