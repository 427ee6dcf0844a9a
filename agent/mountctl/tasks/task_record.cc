// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/tasks/task_record.h"

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "agent/mountctl/tasks/task_json.h"

namespace mountd::agent {
namespace {

constexpr int kRecordVersion = 1;

constexpr std::array<std::pair<TaskPhase, std::string_view>, 6> kPhases{
    {{TaskPhase::kStarting, "starting"},
     {TaskPhase::kRunning, "running"},
     {TaskPhase::kWaiting, "waiting"},
     {TaskPhase::kComplete, "complete"},
     {TaskPhase::kFailed, "failed"},
     {TaskPhase::kStopped, "stopped"}}};

std::optional<TaskPhase> ParsePhase(std::string_view name) {
  for (const auto& [phase, text] : kPhases) {
    if (text == name) {
      return phase;
    }
  }
  return std::nullopt;
}

// Throws nlohmann's exceptions, or nothing for another version or phase.
std::optional<TaskRecord> FromJson(const nlohmann::json& json) {
  if (json.at("version") != kRecordVersion) {
    return std::nullopt;
  }
  const auto phase = ParsePhase(json.at("phase").get<std::string>());
  if (!phase) {
    return std::nullopt;
  }
  TaskRecord record;
  record.phase = *phase;
  json.at("order").get_to(record.order);
  json.at("spec").get_to(record.spec);
  json.at("handle").get_to(record.handle);
  json.at("restarts_in_interval").get_to(record.restarts.in_interval);
  json.at("restarts").get_to(record.restarts.total);
  record.restarts.interval_began =
      BootTime(json.at("interval_began_ms").get<std::int64_t>());
  record.restart_at = BootTime(json.at("restart_at_ms").get<std::int64_t>());
  json.at("reason").get_to(record.reason);
  return record;
}

}  // namespace

std::string_view PhaseName(TaskPhase phase) {
  for (const auto& [one, text] : kPhases) {
    if (one == phase) {
      return text;
    }
  }
  return "unknown";
}

Result<std::string> ToText(const TaskRecord& record) {
  const nlohmann::json json = {
      {"version", kRecordVersion},
      {"order", record.order},
      {"phase", PhaseName(record.phase)},
      {"spec", record.spec},
      {"handle", record.handle},
      {"restarts_in_interval", record.restarts.in_interval},
      {"interval_began_ms", record.restarts.interval_began.count()},
      {"restarts", record.restarts.total},
      {"restart_at_ms", record.restart_at.count()},
      {"reason", record.reason}};
  try {
    return json.dump(1) + "\n";
  } catch (const nlohmann::json::exception&) {
    return MakeError(Code::kInvalidArgument, "record", record.name(),
                     "a text of the task is not UTF-8");
  }
}

Result<TaskRecord> RecordFromText(std::string_view text,
                                  const std::string& path) {
  try {
    if (auto record = FromJson(nlohmann::json::parse(text))) {
      return *std::move(record);
    }
  } catch (const nlohmann::json::exception&) {
    // The error below covers exceptions, too.
  }
  return MakeError(Code::kFailedPrecondition, "read", path,
                   path +
                       " is no record of a task that this release knows; "
                       "remove the file if no newer mountctl wrote it");
}

}  // namespace mountd::agent
