// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <nomad_drivers.pb.h>

#include <chrono>
#include <optional>
#include <string>

#include "agent/driver/task_config.h"
#include "agent/driver/task_status.h"
#include "agent/nomad/plugin/schema.h"
#include "mountd/base/result.h"

// From Nomad's messages to the words of a driver.
namespace mountd::nomad {

namespace wire = hashicorp::nomad::plugins::drivers::proto;

// Returns the name of the allocation at mountd, which is that of mountd-cni.
std::string AllocationOf(const std::string& alloc_id);

// The names at mountd of the task with Nomad's id "<alloc_id>/<name>/<hex>".
struct TaskNames {
  std::string allocation;
  std::string task;
};
std::optional<TaskNames> NamesOfTask(const std::string& task_id);

// Returns the keys of a task's configuration: the driver's without those that
// Nomad has itself.
Keys TaskKeys(const Keys& of_driver);

// InvalidArgument, or NotSupported, with the field's name. Looks at no image.
Result<driver::TaskConfig> TaskConfigOf(const wire::TaskConfig& task,
                                        const Keys& keys);

driver::NetworkIsolation IsolationOf(const wire::NetworkIsolationSpec& spec);

// Never negative, and a year at most.
std::chrono::milliseconds DurationOf(
    const google::protobuf::Duration& duration);

}  // namespace mountd::nomad
