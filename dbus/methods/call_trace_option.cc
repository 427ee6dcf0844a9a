// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/methods/call_trace_option.h"

#include <string>
#include <utility>

namespace mountd::dbus {
namespace {

constexpr char kTraceParent[] = "traceparent";
constexpr char kRequestId[] = "request_id";

}  // namespace

std::shared_ptr<const CallTrace> ReadCallTrace(OptionReader& reader) {
  const bool has_parent = reader.Has(kTraceParent);
  const bool has_id = reader.Has(kRequestId);
  if (!has_parent && !has_id) {
    return nullptr;
  }
  CallTrace call;
  if (has_parent) {
    call.parent =
        ParseTraceParent(reader.Get<std::string>(kTraceParent, std::string()));
    if (!call.parent) {
      reader.Refuse(kTraceParent,
                    "must be a traceparent of W3C Trace Context, such as "
                    "00-<32 digits>-<16 digits>-01 in lower-case hex, with no "
                    "id of zeros only");
    }
  }
  if (has_id) {
    call.request_id = reader.Get<std::string>(kRequestId, std::string());
    if (!IsRequestId(call.request_id)) {
      reader.Refuse(kRequestId,
                    "must be 1 to 128 printable ASCII characters without a "
                    "space");
    }
  }
  return std::make_shared<const CallTrace>(std::move(call));
}

}  // namespace mountd::dbus
