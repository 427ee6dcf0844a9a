// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "agent/client.h"
#include "agent/mountctl/output/json.h"
#include "mountd/base/result.h"

namespace mountd::agent {

// Returns the D-Bus signature of a Manager method's arguments; "" if this
// release's contract has no such method or the method takes none. `known` says
// which.
std::string ArgumentsOf(const std::string& method, bool& known);

// Makes one call of org.mountd1.Manager as given, once: no retry, no joining.
// `args` is a JSON array with one element for each argument; the options at the
// end may be left out. A string may stand for a path (ay). In an a{sv},
// strings, booleans and arrays of strings keep their type; a number is `u` if
// it fits, else `t` or `x`; {"@sig": value} names the type. For an `h`, the
// element is the path of a file, which this function opens read-only. The
// names of `options` become options of the call. Repeats the call without an
// optional trace if mountd is so old that it refuses traces.
//
// InvalidArgument with op "call", before anything is sent, if the arguments do
// not fit the signature. Returns null, the one value, or an array of several.
Result<Json> RawCall(const ClientOptions& options, const std::string& method,
                     const Json& args);

}  // namespace mountd::agent
