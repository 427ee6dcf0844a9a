// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "tests/agent/driver/oci/oci_fixture.h"

namespace mountd::driver::testing {

// Kills one of a task's processes while a call is at work.
class KillFixture : public OciFixture {
 protected:
  // A task that leaves a line for each time that its program begins, and a file
  // of a subordinate id in its upper directory.
  TaskConfig Counted(const std::string& name) const;
  static int Begun(const TaskConfig& config);
  static bool BeginsOnce(const TaskConfig& config);
  // Starts such a task, and waits until its program has begun.
  TaskConfig Begin(TaskDriver& driver, const std::string& name) const;

  // Runs `call` in a process with a driver of its own, and kills that process.
  void KillAfter(useconds_t moment,
                 const std::function<void(TaskDriver&)>& call) const;
  // Makes the call while somebody kills the first processes with that text, a
  // moment after they are there.
  static void UnderFire(const std::string& text, useconds_t moment,
                        const std::function<void()>& call);
  static void KillShims();

  // The pids in the task's cgroup; "" if there is none.
  std::string ProcessesOf(const TaskConfig& config) const;
};

}  // namespace mountd::driver::testing
