// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/ground/context.h"

namespace mountd::propagation {

// A marker tells the mount that an executor made for a source from a mount that
// somebody else made there. The marker is a link, base/<part>/<source>/anchor,
// with the text "<mount id> <what>", in a directory of root's that goes with
// the boot. The marker exists while the source has users. An executor holds
// that directory's lock while it makes or removes the mount.
struct Marker {
  std::uint64_t id = 0;  // 0: there is none
  std::string what;
};

// Makes the source's directory in `part` if it is missing, and locks it. Busy
// if another plan holds the lock for too long. Aborted if other plans keep
// removing the directory.
Result<UniqueFd> LockMarker(const Context& context, int part,
                            const std::string& source);
// Removes the source's directory unless a file is in it. The caller holds the
// lock.
void RemoveIfEmpty(const Context& context, int part, const std::string& source);

Result<Marker> ReadMarker(const Context& context, int part,
                          const std::string& source);
// Writes the marker in place of an older one. `lock` is LockMarker's.
Result<void> WriteMarker(const Context& context, int lock, const Marker& marker,
                         const std::string& source);
// Removes the marker. A missing marker is success.
Result<void> RemoveMarker(const Context& context, int lock,
                          const std::string& source);

}  // namespace mountd::propagation
