// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/commands/call_names.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>
#include <utility>

#include "mountd/base/trace_parent.h"

namespace mountd::agent {
namespace {

std::string CheckTraceParent(const std::string& text) {
  return ParseTraceParent(text) ? "" : "is not a valid traceparent";
}

std::string CheckRequestId(const std::string& text) {
  return IsRequestId(text)
             ? ""
             : "must be 1 to 128 printable ASCII characters without a space";
}

void AddName(Json& options, const char* key, const std::string& name) {
  if (!name.empty() && !options.contains(key)) {
    options[key] = name;
  }
}

}  // namespace

void AddNameOptions(CLI::App& app, Context& context) {
  app.add_option(
         "--traceparent", context.options.names.traceparent,
         "Make the calls part of this trace (W3C Trace Context; default "
         "$TRACEPARENT, if it is valid)")
      ->check(CLI::Validator(CheckTraceParent, ""))
      ->type_name("TEXT")
      ->group("Global options");
  app.add_option("--request-id", context.options.names.request_id,
                 "Name the calls by this text in mountd's log, signals and "
                 "receipts")
      ->check(CLI::Validator(CheckRequestId, ""))
      ->type_name("TEXT")
      ->group("Global options");
}

// Ignores an invalid TRACEPARENT, because the user of mountctl may not know
// that the environment has this variable (W3C Trace Context, section 3.2.3).
void TakeTraceOfEnvironment(Context& context) {
  std::string& traceparent = context.options.names.traceparent;
  const char* const text = std::getenv("TRACEPARENT");
  if (traceparent.empty() && text != nullptr && ParseTraceParent(text)) {
    traceparent = text;
    context.options.optional_trace = true;
  }
}

Json WithNames(Json options, const CallNames& names) {
  if (options.is_object()) {
    AddName(options, "traceparent", names.traceparent);
    AddName(options, "request_id", names.request_id);
  }
  return options;
}

}  // namespace mountd::agent
