// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/driver/task_driver.h"
#include "tests/fault/fault_fixture.h"

namespace mountd::testing {

// One call of an agent that runs a task on mountd's objects.
struct TaskCall {
  std::string name;
  // Makes the call. Returns "Ok", or the error's name and text.
  std::function<std::string(agent::Client&, driver::TaskDriver&)> call;
  // Returns what is missing, or still there, although the call has succeeded;
  // or "".
  std::function<std::string()> missing = [] { return std::string(); };
};

// Makes a World, and an agent with a delegated cgroup, subordinate ids and a
// root file system. Skips the test where crun, newuidmap(1) or cgroups of
// version 2 are missing.
class TaskWorld : public FaultFixture {
 protected:
  void SetUp() override;
  void TearDown() override;
  std::string Timeouts() const override;

  // Makes the call as the agent, in a process of its own with a new connection
  // and a new driver. The client makes no call again by itself.
  std::string Make(const TaskCall& call) const;
  // Returns the calls of a task's life: the allocation with a network, a
  // volume, a mount of the volume and a tmpfs, then start, exec, stop and
  // destroy of the task, and the release.
  std::vector<TaskCall> Life() const;
  // Returns what a task has left besides mountd's objects: directories, states
  // of the runtime, cgroups, processes and files of subordinate ids; or "".
  std::string LeftOfTasks() const;
  // Forgets that the task's program has begun.
  static void ForgetBeginning();

 private:
  std::string Top() const;
  void MakeCgroup();
  static void MakeAgent();
  std::string CallAsAgent(const TaskCall& call) const;

  std::string cgroup_;  // beneath the mount of cgroups; "": none was made
};

}  // namespace mountd::testing
