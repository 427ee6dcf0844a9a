// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>

#include "netns/cni/json.h"

// JSON as Go's encoding/json reads it into a struct (Go 1.26, decode.go and
// fold.go): runtimes and plugins are written in Go, and some of their structs
// have no tags, so that `HostPort` stands where CNI's conventions have
// `hostPort`.
namespace mountd::cni {

// Two names of members are the same to Go if their folded forms are. Go folds
// by Unicode's simple case folding. This folds whatever becomes ASCII: the
// letters, U+017F (long s), and U+212A (Kelvin sign). All of CNI's names are
// ASCII.
std::string FoldedName(std::string_view name);

// Parses as ParseObject does. Of members of one name Go keeps the last, in the
// order of the text, and decodes it into the value before it: objects are
// merged, arrays element by element, and null changes nothing but an array,
// which it empties. The result has such members once.
Result<Json> ParseAsGo(std::string_view text, const TextBounds& bounds,
                       const std::string& object);

}  // namespace mountd::cni
