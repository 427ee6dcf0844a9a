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

// Makes one call of a Manager's method (or Introspect) as given, and neither
// retries nor joins the call. Only if an old mountd refuses the traceparent,
// and `options.optional_trace` is true, calls again without the traceparent.
// `args` is a JSON array with one element for each argument. The a{sv} at the
// end may be left out. A string may stand for a path (ay). In an a{sv},
// strings, booleans and arrays of strings keep their type, an object is a
// nested a{sv}, and a number is `u` if it fits, else `t` or `x`;
// {"@sig": value} names the type. For an `h`, the element is the path of a
// file, which this function opens read-only. `options.names` (traceparent,
// request id) become keys of the a{sv} at the end, unless it has those keys.
//
// InvalidArgument with op "call", before anything is sent, if there is no such
// method or the arguments do not fit its signature; open(2)'s errno for an `h`.
// Returns null, the one value, or an array of several.
Result<Json> RawCall(const ClientOptions& options, const std::string& method,
                     const Json& args);

}  // namespace mountd::agent
