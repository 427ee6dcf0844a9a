// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>

#include "propagation/ground/context.h"

namespace mountd::propagation {

// Bounds of the base's tmpfs, for all users together.
inline constexpr std::uint64_t kBaseBytes = 64U << 20U;
inline constexpr std::uint64_t kBaseFiles = 1'000'000;

// The base (mountd/base/paths.h), opened and checked: the root of a tmpfs that
// belongs to root, in a directory where only root may rename.
struct Base {
  UniqueFd fd;  // O_PATH
  exec::FileFacts facts;
};

// Opens /run/mountd, where only root may rename, as a descriptor that can be
// locked. FailedPrecondition if another user may write there.
Result<UniqueFd> OpenRunDirectory(const Context& context);

// Mounts the base if it is missing: nosuid, nodev, noexec, mode 0711, bounded
// in size, in a shared peer group of its own. The base is shared, because
// otherwise a copy of the host's mount namespace would keep every volume
// mounted after mountd unmounts it. Idempotent. FailedPrecondition if something
// else is at the place.
Result<exec::MountState> PrepareBase(const Context& context);

// Opens the base. FailedPrecondition if the base is not there, or is not as
// PrepareBase made it.
Result<Base> OpenBase(const Context& context);

// Opens base/n, where each pinned network has its marker (netns/plans/pin.h),
// as a descriptor that can be locked.
Result<UniqueFd> OpenNetworkMarkers(const Context& context);

// Opens one of the base's directories and locks it. With the lock, a plan that
// mountd gave up is finished or undone before the next plan sees what it made.
Result<UniqueFd> LockPart(const Context& context, const Base& base,
                          const char* part, const std::string& object);

// Opens base/a/<allocation>. NotFound if no plan prepared it.
Result<UniqueFd> OpenAllocation(const Context& context, const Base& base,
                                const exec::WireName& allocation);

}  // namespace mountd::propagation
