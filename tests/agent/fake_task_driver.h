// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/driver/task_driver.h"

namespace mountd::driver::test {

// The tasks of a node, which outlive every driver.
class FakeTasks {
 public:
  struct Task {
    TaskConfig config;
    bool running = true;
    ExitResult result;
  };

  // Ends the newest start of the task, "<allocation>/<name>".
  void End(const std::string& task, const ExitResult& result);
  // Makes the next StartTask fail, with or without its effect.
  void FailStart(Error error, bool has_effect);
  // Makes the next so many DestroyTask fail without an effect.
  void FailDestroy(Error error, std::size_t count);
  // Makes every StopTask fail without an effect.
  void RefuseStop(Error error);
  // Sets the controllers of the tasks' cgroup; without a value: no cgroup.
  void SetControllers(std::optional<std::string> controllers);
  // Returns the configuration of the newest start of the task.
  std::optional<TaskConfig> config(const std::string& task);
  // Loses all tasks, as a reboot does.
  void Reboot();

  // Returns the calls so far that change something, such as "start web/a".
  std::vector<std::string> calls();
  std::size_t running(const std::string& task);
  // Waits until the task has been started so many times.
  void AwaitStarts(const std::string& task, std::size_t count);

 private:
  friend class FakeTaskDriver;

  void Record(const std::string& verb, const std::string& task);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Task> tasks_;
  std::vector<std::string> calls_;
  struct Failure {
    Error error;
    bool has_effect = false;
  };
  std::deque<Failure> failures_;
  std::deque<Error> destroy_failures_;
  std::optional<Error> stop_failure_;
  std::optional<std::string> controllers_ = "cpu cpuset memory pids";
};

// One process's driver of these tasks. Knows the tasks that it has started or
// recovered, as TaskDriver says.
class FakeTaskDriver : public TaskDriver, public StreamingExec {
 public:
  explicit FakeTaskDriver(FakeTasks& tasks) : tasks_(tasks) {}

  DriverCapabilities Capabilities() override;
  std::vector<SchemaKey> ConfigSchema() override { return {}; }
  Result<std::unique_ptr<Stream<Fingerprint>>> Fingerprints() override;
  Result<CreatedNetwork> CreateNetwork(const std::string& allocation,
                                       const std::string& hostname) override;
  Result<void> DestroyNetwork(const std::string& allocation,
                              const NetworkIsolation& isolation) override;
  Result<StartedTask> StartTask(const TaskConfig& config) override;
  Result<void> RecoverTask(const TaskHandle& handle) override;
  Result<ExitResult> WaitTask(const std::string& id) override;
  Result<void> StopTask(const std::string& id,
                        std::chrono::milliseconds timeout,
                        const std::string& signal) override;
  Result<void> DestroyTask(const std::string& id, bool force) override;
  // Removes the directory as the tasks' users may.
  Result<void> RemoveDirectory(const std::string& path) override;
  Result<TaskStatus> InspectTask(const std::string& id) override;
  Result<void> SignalTask(const std::string& id,
                          const std::string& signal) override;
  Result<void> UpdateTask(const std::string& id,
                          const TaskResources& resources) override;
  Result<std::unique_ptr<Stream<TaskStats>>> Stats(
      const std::string& id, std::chrono::milliseconds interval) override;
  Result<std::unique_ptr<Stream<TaskEvent>>> Events() override;
  Result<ExecOutput> ExecTask(const std::string& id,
                              const std::vector<std::string>& command,
                              std::chrono::milliseconds timeout) override;
  StreamingExec* streaming_exec() override { return this; }
  // Writes the command to stdout, and each size of the terminal. `exit N` and
  // `kill N` end so; `sizes N` ends after N sizes, and `wait` at Shutdown.
  Result<ExitResult> ExecTaskStreaming(const std::string& task_id,
                                       const ExecOptions& options) override;
  void Shutdown() override;

 private:
  Result<FakeTasks::Task*> Known(const std::string& id);

  FakeTasks& tasks_;
  std::set<std::string> known_;  // tasks_.mutex_
  bool shut_down_ = false;       // tasks_.mutex_
};

}  // namespace mountd::driver::test
