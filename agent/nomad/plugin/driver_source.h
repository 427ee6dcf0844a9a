// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "agent/driver/task_driver.h"
#include "agent/nomad/plugin/settings.h"
#include "mountd/base/result.h"

namespace mountd::nomad {

// The allocations of this plugin at mountd, which have the networks and the
// host volumes of tasks.
class Allocations {
 public:
  Allocations() = default;
  Allocations(const Allocations&) = delete;
  Allocations& operator=(const Allocations&) = delete;
  virtual ~Allocations() = default;

  // Idempotent.
  virtual Result<void> Prepare(const std::string& allocation) = 0;
  // Has mountd mount each host volume of mountd.toml whose path a mount of the
  // task has, and gives that mount its path in the task's inbox. Other mounts
  // stay. Idempotent. Errors as of BindMounts; then no mount is made.
  virtual Result<void> MountHostVolumes(driver::TaskConfig* config) = 0;
  // Unmounts what MountHostVolumes has mounted for the task, and releases an
  // allocation that is bare then and has no network. Ok if there is nothing.
  // Busy while a task of that name runs, or a process uses a mount.
  virtual Result<void> UnmountHostVolumes(const std::string& allocation,
                                          const std::string& task) = 0;
  // Unmounts host volumes that no process uses. Then releases an allocation
  // that has neither a volume nor a mount; keeps each other one, because Nomad
  // ends the network before the volumes. Does nothing while a task of the
  // allocation runs, under which Nomad makes a new network. Ok if there is
  // none.
  virtual Result<void> ReleaseIfBare(const std::string& allocation) = 0;
};

// Owns what the calls of Nomad use.
struct Node {
  std::shared_ptr<void> keeps{};  // what the driver uses, until its end
  std::unique_ptr<Allocations> allocations;
  std::unique_ptr<driver::TaskDriver> driver;
};

// Makes the driver at the first call that needs it, because Nomad starts each
// plugin several times only to ask for its name. Any thread.
class DriverSource {
 public:
  using Make = std::function<Result<Node>(const Settings&)>;

  explicit DriverSource(Make make) : make_(std::move(make)) {}

  // FailedPrecondition once a driver works by other settings.
  Result<void> Configure(const Settings& settings);
  // Tries again after an error. The source owns the node.
  Result<Node*> Get();
  Result<driver::TaskDriver*> Driver();
  Settings settings();
  // Shuts the driver down if there is one. Touches no task.
  void Shutdown();

 private:
  const Make make_;
  std::mutex mutex_;
  Settings settings_;
  std::optional<Node> node_;
};

}  // namespace mountd::nomad
