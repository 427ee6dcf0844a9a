// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "agent/client.h"
#include "agent/driver/task_driver.h"
#include "bench/report.h"

namespace mountd::bench {

// The image, the delegated cgroup and the subordinate ids of an ordinary user
// who runs tasks. Root makes them once, and removes the cgroup at the end.
class TaskHost {
 public:
  // NotSupported, with the program's name, if crun or newuidmap is missing.
  static Result<std::unique_ptr<TaskHost>> Make();
  TaskHost(const TaskHost&) = delete;
  TaskHost& operator=(const TaskHost&) = delete;
  ~TaskHost();

 private:
  TaskHost() = default;
};

inline constexpr char kTaskState[] = "/run/bench/agent/state";
inline constexpr char kTaskImage[] = "dir:/run/bench/image";

// A client of mountd's and a driver that uses the client; one thread uses both.
struct TaskAgent {
  static Result<TaskAgent> Connect();

  std::unique_ptr<agent::Client> client;
  std::unique_ptr<driver::TaskDriver> driver;
};

// Samples by name, from the process that took them.
using SamplesByName = std::map<std::string, Samples>;

// Runs `body` as the ordinary user, in a process of its own in the delegated
// cgroup, and returns the samples that `body` has taken.
Result<SamplesByName> AsTaskUser(
    const std::function<Result<void>(SamplesByName&)>& body);

}  // namespace mountd::bench
