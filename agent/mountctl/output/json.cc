// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/output/json.h"

#include <initializer_list>

#include "agent/mountctl/output/output.h"

namespace mountd::agent {
namespace {

template <typename T>
Json WithoutConditionUnlessKnown(const T& value) {
  Json json = ToJson<T>(value);
  if (!value.has_condition) {
    json.erase("abnormal");
    json.erase("condition");
  }
  return json;
}

void EraseEmptyTexts(Json& json, std::initializer_list<const char*> keys) {
  for (const char* const key : keys) {
    if (json[key] == "") {
      json.erase(key);
    }
  }
}

template <typename T>
Json WithoutEmptyNames(const T& value) {
  Json json = ToJson<T>(value);
  EraseEmptyTexts(json, {"traceparent", "request_id"});
  return json;
}

}  // namespace

Json ToJson(const OwedTeardown& owed) {
  Json json = ToJson<OwedTeardown>(owed);
  json["age_seconds"] = AgeOf(owed.since).count();
  return json;
}

Json ToJson(const PluginStatus& plugin) {
  Json json = ToJson<PluginStatus>(plugin);
  json["controller_required"] = ControllerRequired(plugin);
  return json;
}

Json ToJson(const VolumeStats& stats) {
  return WithoutConditionUnlessKnown(stats);
}

Json ToJson(const PluginVolume& volume) {
  return WithoutConditionUnlessKnown(volume);
}

Json ToJson(const OperationStatus& operation) {
  Json json = ToJson<OperationStatus>(operation);
  EraseEmptyTexts(json, {"traceparent", "request_id", "span_id"});
  if (operation.spans.empty()) {
    json.erase("spans");
    json.erase("spans_left_out");
  }
  return json;
}

Json ToJson(const Receipt& receipt) { return WithoutEmptyNames(receipt); }

Json ToJson(const Lease& lease) { return WithoutEmptyNames(lease); }

Json ToJson(const Fence& fence) { return WithoutEmptyNames(fence); }

Json ToJson(const LeaseChange& change) { return WithoutEmptyNames(change); }

Json ToJson(const StagedVolume& volume) {
  return WithoutConditionUnlessKnown(volume);
}

Json ToJson(const Snapshot& snapshot) {
  return {{"snapshot", snapshot.snapshot},
          {"source_volume", snapshot.source_volume},
          {"size_bytes", snapshot.size_bytes},
          {"creation_time",
           snapshot.creation_time
               ? Json(snapshot.creation_time->time_since_epoch().count())
               : Json()},
          {"ready_to_use", snapshot.ready_to_use},
          {"group_snapshot", snapshot.group_snapshot}};
}

std::string Dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace mountd::agent
