// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>

#include "netns/cni/documents/json.h"

// Reads JSON as Go's encoding/json reads it into a struct (Go 1.26, decode.go
// and fold.go). Runtimes and plugins are written in Go, and some of their
// structs have no tags, so a document may have `HostPort` where CNI's
// conventions have `hostPort`.
namespace mountd::cni {

// Returns the folded form of a member's name. Two names are the same to Go if
// their folded forms are equal. Go uses Unicode's simple case folding; this
// function folds only what becomes ASCII, because all of CNI's names are ASCII:
// the letters, U+017F (long s) and U+212A (Kelvin sign).
std::string FoldedName(std::string_view name);

// Parses as ParseObject does. If an object has several members of one name, Go
// decodes each into the value of the one before, in the order of the text:
// objects are merged, arrays element by element, and null changes nothing,
// except that it empties an array. The result has each such member once.
Result<Json> ParseAsGo(std::string_view text, const TextBounds& bounds,
                       const std::string& object);

}  // namespace mountd::cni
