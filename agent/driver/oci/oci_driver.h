// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/driver/task_driver.h"
#include "mountd/base/result.h"

namespace mountd::agent {
class Client;
}  // namespace mountd::agent

// A driver that runs tasks as rootless OCI containers of this process's user.
namespace mountd::driver {

struct OciDriverOptions {
  // The directory of this user's tasks, made with mode 0700; its parent exists.
  // Any number of drivers in any number of processes share it.
  std::string state;
  std::string runtime = "crun";  // "crun", "runc" or a path
  std::string shim{};            // "": the installed mountd-task-shim
  // mountd; null: the driver makes no networks and verifies no mounts, and the
  // fingerprint says so. The caller keeps the client as long as the driver, and
  // lets no other thread use the client meanwhile.
  agent::Client* client = nullptr;
  // A cgroup of version 2 that is delegated to this user, such as
  // "/sys/fs/cgroup/…" of a unit with Delegate=yes. "": tasks have no limits.
  std::string cgroup{};
  // True: the driver keeps namespaces for the next allocation, and a thread
  // makes them after each start. Only of use in a process that starts many
  // tasks.
  bool keeps_spare_namespaces = false;
};

// Makes the driver. PermissionDenied for root, because a container's root would
// be the host's. InvalidArgument for a path that overlayfs's options cannot
// hold. On a machine that cannot run tasks this function also makes a driver,
// whose fingerprint says why.
Result<std::unique_ptr<TaskDriver>> MakeOciDriver(OciDriverOptions options);

// Removes the images that no task of the state has, because DestroyTask keeps
// the image for the next start. Returns their digests. Errors as MakeOciDriver.
Result<std::vector<std::string>> RemoveUnusedImages(
    const OciDriverOptions& options);

// An allocation and the name of one of its tasks.
using TaskName = std::pair<std::string, std::string>;

// Returns the tasks that the state has a record of, because StartTask made it
// and DestroyTask has not removed it. Errors as MakeOciDriver, and
// FailedPrecondition for a record that this release cannot read.
Result<std::set<TaskName>> RecordedTasks(const OciDriverOptions& options);

// Returns the directories of the tasks of an allocation that run now, whatever
// the state of their driver is: "<state>/tasks/<key>", sorted. Looks at the
// mounts of this user's processes, so it finds also tasks whose shim was
// killed. An error if a process cannot be looked at for want of fds or memory.
Result<std::vector<std::string>> DirectoriesOfRunningTasks(
    const std::string& allocation);
// Returns the names of these tasks.
Result<std::set<std::string>> NamesOfRunningTasks(
    const std::string& allocation);

}  // namespace mountd::driver
