// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>

#include "propagation/context.h"

namespace mountd::propagation {

// What the base holds, of all users together.
inline constexpr std::uint64_t kBaseBytes = 64U << 20U;
inline constexpr std::uint64_t kBaseFiles = 1'000'000;

// The base (mountd/base/paths.h), checked: the root of a tmpfs of root's, on a
// directory where only root renames.
struct Base {
  UniqueFd fd;  // O_PATH
  exec::FileFacts facts;
};

// /run/mountd, where nobody but root may rename; to be locked.
Result<UniqueFd> OpenRunDirectory(const Context& context);

// Mounts the base if it is missing: nosuid, nodev, noexec, 0711, bounded in
// size, in a shared peer group of its own. Shared, because mount namespaces
// that others copy from the host's would else keep every volume alive after its
// unmount. Idempotent; FailedPrecondition if something else is at the place.
Result<exec::MountState> PrepareBase(const Context& context);

// FailedPrecondition if the base is not there, or not as PrepareBase made it.
Result<Base> OpenBase(const Context& context);

// base/n, where each pinned network has its marker (netns/pin.h); to be locked.
Result<UniqueFd> OpenNetworkMarkers(const Context& context);

// Opens one of the base's directories and locks it. A plan that mountd gave up
// is then finished or undone before the next one finds what it made.
Result<UniqueFd> LockPart(const Context& context, const Base& base,
                          const char* part, const std::string& object);

// base/a/<allocation>. NotFound if it was not prepared.
Result<UniqueFd> OpenAllocation(const Context& context, const Base& base,
                                const exec::WireName& allocation);

}  // namespace mountd::propagation
