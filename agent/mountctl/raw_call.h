// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "agent/client.h"
#include "agent/mountctl/json.h"
#include "mountd/base/result.h"

namespace mountd::agent {

// The D-Bus signature of a Manager method's arguments; "" if the contract of
// this release has no such method or it takes none. `known` says which.
std::string ArgumentsOf(const std::string& method, bool& known);

// One call of org.mountd1.Manager as it is, once: no retry, no joining. `args`
// is a JSON array with one element for each argument; the options at the end
// may be left out. Strings stand for paths (ay) too. In an a{sv}, strings,
// booleans and arrays of strings are what they look like and a number that fits
// is `u`, else `t` or `x`; {"@sig": value} names the type. A `h` is a file's
// path, which is opened read-only.
//
// InvalidArgument with op "call" for arguments that cannot be put into the
// signature: then nothing was sent. The answer is null, the value, or an array
// of several.
Result<Json> RawCall(const ClientOptions& options, const std::string& method,
                     const Json& args);

}  // namespace mountd::agent
