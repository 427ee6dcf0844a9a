// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "dbus/methods/api_parts.h"

// Log what never becomes an operation. Run on the loop's thread.
namespace mountd::dbus {

// Logs a call that cannot become an operation. The text of `error` may have
// names of options and arguments, but must not have their values.
inline void AuditUndecodable(const ApiParts& parts, const Caller& caller,
                             const std::string& method, const Error& error) {
  OperationSummary summary;
  summary.method = method;
  summary.object = "undecodable";
  summary.uid = caller.uid;
  summary.pid = caller.pid;
  summary.error = &error;
  parts.audit(summary);
}

// Logs a connection that mountd refuses.
inline void AuditRefused(const ApiParts& parts, const Caller& caller,
                         const std::string& why) {
  const Error error =
      MakeError(Code::kResourceExhausted, "accept", "connection", why);
  OperationSummary summary;
  summary.method = "connect";
  summary.object = "refused";
  summary.uid = caller.uid;
  summary.pid = caller.pid;
  summary.error = &error;
  parts.audit(summary);
}

// Logs that an administrator reads what belongs to `others`.
inline void AuditRead(const ApiParts& parts, const CallContext& context,
                      const char* method, const char* object,
                      const std::string& others) {
  OperationSummary summary;
  summary.method = method;
  summary.object = object;
  summary.uid = context.caller.uid;
  summary.pid = context.caller.pid;
  summary.rules = context.decisions->Rules();
  summary.others = others;
  parts.audit(summary);
}

}  // namespace mountd::dbus
