// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/output/otlp.h"

#include <optional>
#include <string>

#include "mountd/base/trace_parent.h"

namespace mountd::agent {
namespace {

// trace.proto: Span.SpanKind, Status.StatusCode.
constexpr int kKindInternal = 1;
constexpr int kKindServer = 2;
constexpr int kKindClient = 3;
constexpr int kStatusError = 2;

int KindOf(const std::string& kind) {
  if (kind == "server") {
    return kKindServer;
  }
  return kind == "client" ? kKindClient : kKindInternal;
}

void AddText(Json& attributes, const char* key, const std::string& text) {
  if (!text.empty()) {
    attributes.push_back({{"key", key}, {"value", {{"stringValue", text}}}});
  }
}

void AddNumber(Json& attributes, const char* key, std::uint64_t number) {
  attributes.push_back(
      {{"key", key}, {"value", {{"intValue", std::to_string(number)}}}});
}

Json AttributesOf(const OperationStatus& operation) {
  Json attributes = Json::array();
  AddText(attributes, "mountd.operation", operation.id);
  AddText(attributes, "mountd.object", operation.object);
  AddText(attributes, "mountd.request_id", operation.request_id);
  AddNumber(attributes, "mountd.uid", operation.uid);
  if (operation.spans_left_out != 0) {
    AddNumber(attributes, "mountd.spans_left_out", operation.spans_left_out);
  }
  return attributes;
}

Json SpanOf(const OperationSpan& span, const TraceParent& trace) {
  Json json = {{"traceId", ToHex(trace.trace_id)},
               {"spanId", span.span_id},
               {"parentSpanId", span.parent_span_id},
               {"flags", trace.flags},
               {"name", span.name},
               {"kind", KindOf(span.kind)},
               {"startTimeUnixNano", std::to_string(span.start_ns)},
               {"endTimeUnixNano", std::to_string(span.end_ns)}};
  if (!span.error.empty()) {
    json["status"] = {{"message", span.error}, {"code", kStatusError}};
  }
  return json;
}

}  // namespace

Json ToOtlp(const OperationStatus& operation) {
  const std::optional<TraceParent> trace =
      ParseTraceParent(operation.traceparent);
  if (!trace || operation.spans.empty()) {
    return {};
  }
  Json spans = Json::array();
  for (const OperationSpan& span : operation.spans) {
    spans.push_back(SpanOf(span, *trace));
  }
  // The first one is the operation's own.
  spans[0]["attributes"] = AttributesOf(operation);
  Json service = Json::array();
  AddText(service, "service.name", "mountd");
  Json of_scope = {{"scope", {{"name", "mountd"}}}, {"spans", spans}};
  Json of_resource = {{"resource", {{"attributes", service}}},
                      {"scopeSpans", Json::array({of_scope})}};
  return {{"resourceSpans", Json::array({of_resource})}};
}

}  // namespace mountd::agent
