// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/base/result.h"

// Handles a store that SQLite finds damaged, or that is no SQLite file. mountd
// neither reads nor deletes such a file. mountd sets the file aside under
// another name, so that an operator can look into it, and continues with a new
// store.
namespace mountd::store {

// The number of damaged files that mountd keeps for each store: the last one
// that it set aside, and the latest of the others by their names' times.
inline constexpr std::size_t kMostSetAside = 3;

Error Damage(std::string op, std::string what);
bool IsDamage(const Error& error);

// Notes in a file beside the store that it was found damaged in use, because
// the check at the next start may not find the same damage. Best effort.
void NoteDamaged(const std::string& path);
bool WasFoundDamaged(const std::string& path);

// Renames the store and its log to "<path>.corrupt-<UTC>", removes the note,
// and returns the new name. Unavailable if that fails; the store then keeps its
// name.
Result<std::string> SetAside(const std::string& path);

}  // namespace mountd::store
