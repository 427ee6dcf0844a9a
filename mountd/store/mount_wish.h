// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>

#include "mountd/plan/values.h"

namespace mountd {

// All that a caller chooses about a mount, apart from its name. The request,
// the record and the answer contain it. Two calls ask for the same mount if
// their wishes are equal. A new option of BindMount becomes a member here, or a
// row of exec::kAttributes if the option is an attribute.
struct MountWish {
  exec::SourceKind source_kind = exec::SourceKind::kHostVolume;
  // The host volume's or file system's name, the alias, or the path of a
  // directory when the caller passed it; "" for a tmpfs.
  std::string source{};
  exec::TmpfsPlan tmpfs{};  // kTmpfs only
  exec::Propagation propagation = exec::Propagation::kPrivate;
  std::uint32_t attributes = 0;  // exec::Attribute
  exec::IdMapPlan ids{};
  std::string task_path{};
  exec::TargetKind target_kind = exec::TargetKind::kInbox;
  // kDirectory: the path that the directory had when the caller passed it.
  // kContainer: the inode of the container's mount namespace. kInbox, with a
  // directory as source: that directory's device and inode. mountd never opens
  // this path.
  std::string place{};
  friend bool operator==(const MountWish&, const MountWish&) = default;
};

}  // namespace mountd
