// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mountd/service/service_parts.h"

// Mounts of host volumes, file systems and directories that mountd removed
// without knowing that no task has them: a detached one, one whose copies the
// caller ignored, one that another replaced, one that was lost, and one whose
// making was cut off. No search finds such a mount's users, because the mount
// is gone from the host or mountd does not know its id. So every process of the
// allocation's cgroup counts as a user, until the cgroup has none. The same
// goes for a cgroup that the allocation had before its last one. A volume of a
// plugin has its own record (DepartedRecord), and a tmpfs frees no claim.
namespace mountd {

// Records that processes of the allocation's cgroup may keep one of the mounts.
// Called before the mounts are removed, on the allocation's strand. Records
// nothing if there is no cgroup, or no mount of these kinds.
Result<void> NoteUnchecked(const ServiceParts& parts,
                           const AllocationRecord& record,
                           const std::vector<MountRecord>& mounts);

// Records that processes of the allocation's cgroup may keep mounts, also those
// that its inboxes get later. Called before the allocation gets another cgroup,
// because searches then look at that one alone. Records nothing without a
// cgroup. ResourceExhausted while too many earlier cgroups have processes.
Result<void> NoteLeftCgroup(const ServiceParts& parts,
                            const AllocationRecord& record);

// Returns the processes that may still use such mounts of the user's
// allocation, as text; nothing if there are none. Forgets the records whose
// cgroup has no process. A cgroup that cannot be looked at counts as one with
// processes. The caller must read `records` before it makes sure that no mount
// of the allocation is being removed.
Result<std::optional<std::string>> UsersOfUnchecked(
    const ServiceParts& parts, const std::vector<UncheckedRecord>& records,
    std::uint32_t uid);

// Returns the same for an allocation whose receipt the caller has read. The
// caller has read `before` from the store before the receipt. Also looks at
// records that came between the two reads, because the release may have made
// them, and forgets none of these, because a release that removes mounts now
// may have made them.
Result<std::optional<std::string>> UsersOfReleased(
    const ServiceParts& parts, const std::string& allocation,
    const std::vector<UncheckedRecord>& before, std::uint32_t uid);

}  // namespace mountd
