// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "agent/mountctl/commands/commands.h"
#include "agent/mountctl/output/json.h"

// The names of mountctl's calls: a trace, and a request's id.
namespace mountd::agent {

// Adds the global options --traceparent and --request-id.
void AddNameOptions(CLI::App& app, Context& context);

// Takes the trace of the environment (TRACEPARENT) if no option gave one. Call
// this function after the options are read. Sets `optional_trace`, because an
// old mountd refuses traces.
void TakeTraceOfEnvironment(Context& context);

// Returns the options of a raw call with the names, except where the call's
// own options have them.
Json WithNames(Json options, const CallNames& names);

}  // namespace mountd::agent
