// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/base/result.h"

// A store that SQLite finds damaged, or to be no store, is never read on and
// never deleted: it is set aside under another name, for whoever wants to know
// what was in it, and mountd goes on with a fresh one.
namespace mountd::store {

// How many of a store are kept: the last one, and of the others those that were
// latest by the clock.
inline constexpr std::size_t kMostSetAside = 3;

Error Damage(std::string op, std::string what);
bool IsDamage(const Error& error);

// A store that was found damaged while it was used: written down beside it, as
// what was found need not be found again at the next start. Best effort.
void NoteDamaged(const std::string& path);
bool WasFoundDamaged(const std::string& path);

// Renames it and its log to "<path>.corrupt-<UTC>", and forgets the note; the
// file's name. Unavailable if that fails: it is still there then.
Result<std::string> SetAside(const std::string& path);

}  // namespace mountd::store
