// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/context.h"

namespace mountd::propagation {

// What an executor mounted for a source, as long as it has users, is told from
// what others mount by a marker: base/<part>/<source>/anchor is a link whose
// text is "<mount id> <what>", in a directory of root's that goes with the
// boot. That directory's lock is held while the mount is made or taken away.
struct Marker {
  std::uint64_t id = 0;  // 0: there is none
  std::string what;
};

// The source's directory in `part`, made if missing, and locked. Busy if
// another plan has it for too long.
Result<UniqueFd> LockMarker(const Context& context, int part,
                            const std::string& source);
// With the lock. One with anything in it stays.
void RemoveIfEmpty(const Context& context, int part, const std::string& source);

Result<Marker> ReadMarker(const Context& context, int part,
                          const std::string& source);
// In place of the one that is there. `lock` is LockMarker's.
Result<void> WriteMarker(const Context& context, int lock, const Marker& marker,
                         const std::string& source);
// None is success.
Result<void> RemoveMarker(const Context& context, int lock,
                          const std::string& source);

}  // namespace mountd::propagation
