// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "agent/mountctl/output/json.h"

// Writes an operation's spans as OTLP/JSON: the proto3 JSON mapping of
// opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest (OTLP 1.3).
// OTLP has ids in lower-case hex, enumerations as numbers, and 64-bit numbers
// as strings.
namespace mountd::agent {

// Returns null if the operation has no span, or no valid traceparent.
Json ToOtlp(const OperationStatus& operation);

}  // namespace mountd::agent
