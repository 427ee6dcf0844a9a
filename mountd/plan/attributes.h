// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/mount.h>

#include <array>
#include <cstdint>
#include <string_view>

// The attributes that a caller can ask for. kAttributes is their only list: the
// methods of the API, the executor, the read-back and VerifyTask go through it.
namespace mountd::exec {

// Bits of plans and of the stores' records, so no number ever changes.
enum Attribute : std::uint32_t {
  kEveryMount = 0,  // no choice: each mount has it
  kReadOnly = 1U << 0U,
  kNoExec = 1U << 1U,
  kNoAtime = 1U << 2U,
  // Not for every mount, because programs keep links in their volumes: package
  // managers, certbot, and PostgreSQL for its tablespaces.
  kNoSymFollow = 1U << 3U,
};

struct AttributeRow {
  Attribute bit = kEveryMount;
  std::string_view key;  // as the API names it
  std::string_view
      word;  // a literal, as mountinfo names it (proc_pid_mountinfo(5))
  std::uint64_t flag = 0;  // MOUNT_ATTR_* of mount_setattr(2)
  // Flags that mount_setattr(2) must clear when it sets `flag`, because these
  // flags and `flag` are one field.
  std::uint64_t clear = 0;
  // Without the attribute a task could do more than asked for.
  bool confines = true;
};

inline constexpr std::array kAttributes = {
    AttributeRow{kReadOnly, "read_only", "ro", MOUNT_ATTR_RDONLY},
    // Every mount gets these two, whatever the plan says, because a source may
    // hold setuid programs and device nodes (SECURITY.md).
    AttributeRow{kEveryMount, "nosuid", "nosuid", MOUNT_ATTR_NOSUID},
    AttributeRow{kEveryMount, "nodev", "nodev", MOUNT_ATTR_NODEV},
    AttributeRow{kNoExec, "noexec", "noexec", MOUNT_ATTR_NOEXEC},
    AttributeRow{kNoAtime, "noatime", "noatime", MOUNT_ATTR_NOATIME,
                 MOUNT_ATTR__ATIME, false},
    AttributeRow{kNoSymFollow, "nosymfollow", "nosymfollow",
                 MOUNT_ATTR_NOSYMFOLLOW},
};

// Returns whether a mount with these attributes has the row's.
constexpr bool Has(std::uint32_t attributes, const AttributeRow& row) {
  return row.bit == kEveryMount || (attributes & row.bit) != 0;
}

inline constexpr std::uint32_t kAllAttributes = [] {
  std::uint32_t all = 0;
  for (const AttributeRow& row : kAttributes) {
    all |= row.bit;
  }
  return all;
}();

}  // namespace mountd::exec
