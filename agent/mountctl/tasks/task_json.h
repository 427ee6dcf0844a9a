// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "agent/driver/task_status.h"
#include "agent/mountctl/tasks/task_spec.h"

// The values of records as JSON. nlohmann finds these functions by their names
// and by the namespaces of their arguments. The from_json functions throw
// nlohmann's exceptions. Bytes that need not be UTF-8 are hexadecimal.
namespace mountd::driver {

void to_json(nlohmann::json& json, const TaskConfig& config);
void from_json(const nlohmann::json& json, TaskConfig& config);
void to_json(nlohmann::json& json, const NetworkIsolation& network);
void from_json(const nlohmann::json& json, NetworkIsolation& network);
void to_json(nlohmann::json& json, const TaskHandle& handle);
void from_json(const nlohmann::json& json, TaskHandle& handle);

}  // namespace mountd::driver

namespace mountd::agent {

void to_json(nlohmann::json& json, const TaskSpec& spec);
void from_json(const nlohmann::json& json, TaskSpec& spec);

}  // namespace mountd::agent
