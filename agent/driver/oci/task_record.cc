// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/oci/task_record.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace mountd::driver {
namespace {

using Json = nlohmann::json;

Error BadRecord(Code code, std::string detail) {
  return MakeError(code, "parse", "task.json", std::move(detail));
}

// Takes the member if it is there and of that type. Nothing here throws.
template <typename T, bool (Json::*kIs)() const noexcept>
void Take(const Json& parent, const char* key, T* value) {
  const auto member = parent.find(key);
  if (member != parent.end() && ((*member).*kIs)()) {
    *value = member->get<T>();
  }
}

void TakeText(const Json& parent, const char* key, std::string* value) {
  Take<std::string, &Json::is_string>(parent, key, value);
}

void TakeUser(const Json& process, ProcessUser* user) {
  Take<std::uint32_t, &Json::is_number_unsigned>(process, "uid", &user->uid);
  Take<std::uint32_t, &Json::is_number_unsigned>(process, "gid", &user->gid);
  const auto groups = process.find("groups");
  if (groups != process.end() && groups->is_array()) {
    for (const Json& group : *groups) {
      if (group.is_number_unsigned()) {
        user->additional_gids.push_back(group.get<std::uint32_t>());
      }
    }
  }
}

void TakeCapabilities(const Json& process, const char* key,
                      std::set<std::string>* names) {
  const auto list = process.find(key);
  if (list != process.end() && list->is_array()) {
    for (const Json& name : *list) {
      if (name.is_string()) {
        names->insert(name.get<std::string>());
      }
    }
  }
}

void TakeLimits(const Json& process, std::vector<ProcessLimit>* limits) {
  const auto list = process.find("rlimits");
  if (list == process.end() || !list->is_array()) {
    return;
  }
  for (const Json& each : *list) {
    ProcessLimit limit;
    if (each.is_object()) {
      TakeText(each, "type", &limit.type);
      Take<std::uint64_t, &Json::is_number_unsigned>(each, "soft", &limit.soft);
      Take<std::uint64_t, &Json::is_number_unsigned>(each, "hard", &limit.hard);
      limits->push_back(limit);
    }
  }
}

Json LimitsJson(const std::vector<ProcessLimit>& limits) {
  Json list = Json::array();
  for (const ProcessLimit& limit : limits) {
    list.push_back(
        {{"type", limit.type}, {"soft", limit.soft}, {"hard", limit.hard}});
  }
  return list;
}

void TakeProcess(const Json& object, ContainerProcess* process) {
  TakeUser(object, &process->user);
  TakeText(object, "cwd", &process->cwd);
  TakeCapabilities(object, "bounding", &process->capabilities.bounding);
  TakeCapabilities(object, "added", &process->capabilities.added);
  TakeLimits(object, &process->rlimits);
  const auto env = object.find("env");
  if (env != object.end() && env->is_object()) {
    for (const auto& [name, value] : env->items()) {
      if (value.is_string()) {
        process->env[name] = value.get<std::string>();
      }
    }
  }
}

}  // namespace

std::string RecordText(const TaskRecord& record) {
  const ContainerProcess& process = record.process;
  const Json document = {{"version", TaskRecord::kVersion},
                         {"id", record.id},
                         {"allocation", record.allocation},
                         {"name", record.name},
                         {"config_digest", record.config_digest},
                         {"image_digest", record.image_digest},
                         {"stop_signal", record.stop_signal},
                         {"has_cgroup", record.has_cgroup},
                         {"cgroup", record.cgroup},
                         {"has_mounts", record.has_mounts},
                         {"process",
                          {{"uid", process.user.uid},
                           {"gid", process.user.gid},
                           {"groups", process.user.additional_gids},
                           {"cwd", process.cwd},
                           {"env", process.env},
                           {"rlimits", LimitsJson(process.rlimits)},
                           {"bounding", process.capabilities.bounding},
                           {"added", process.capabilities.added}}}};
  return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<TaskRecord> ParseRecord(const std::string& text) {
  const Json document = Json::parse(text, nullptr, false);
  if (!document.is_object()) {
    return BadRecord(Code::kInvalidArgument, "the file is no JSON object");
  }
  int version = 0;
  Take<int, &Json::is_number_integer>(document, "version", &version);
  if (version < 1) {
    return BadRecord(Code::kInvalidArgument, "the file has no version");
  }
  if (version > TaskRecord::kVersion) {
    return BadRecord(Code::kFailedPrecondition,
                     "a newer release wrote version " +
                         std::to_string(version) + "; this release reads " +
                         std::to_string(TaskRecord::kVersion));
  }
  TaskRecord record;
  TakeText(document, "id", &record.id);
  TakeText(document, "allocation", &record.allocation);
  TakeText(document, "name", &record.name);
  TakeText(document, "config_digest", &record.config_digest);
  TakeText(document, "image_digest", &record.image_digest);
  Take<int, &Json::is_number_integer>(document, "stop_signal",
                                      &record.stop_signal);
  Take<bool, &Json::is_boolean>(document, "has_cgroup", &record.has_cgroup);
  TakeText(document, "cgroup", &record.cgroup);
  Take<bool, &Json::is_boolean>(document, "has_mounts", &record.has_mounts);
  const auto process = document.find("process");
  if (process != document.end() && process->is_object()) {
    TakeProcess(*process, &record.process);
  }
  return record;
}

}  // namespace mountd::driver
