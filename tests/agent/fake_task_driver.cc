// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/agent/fake_task_driver.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace mountd::driver::test {
namespace {

Error NotKnown(const std::string& id) {
  return MakeError(Code::kNotFound, "find", id, "this driver does not know it");
}

std::string TaskOf(const TaskConfig& config) {
  return config.allocation + "/" + config.name;
}

class OneStats : public Stream<TaskStats> {
 public:
  Result<std::optional<TaskStats>> Next() override {
    if (std::exchange(told_, true)) {
      return std::optional<TaskStats>();
    }
    TaskStats stats;
    stats.memory_current = 3U << 20U;
    stats.cpu_user_us = 1'500'000;
    stats.cpu_system_us = 500'000;
    stats.pids = 2;
    return std::optional(stats);
  }
  void Cancel() override {}

 private:
  bool told_ = false;
};

class OneFingerprint : public Stream<Fingerprint> {
 public:
  explicit OneFingerprint(Fingerprint fingerprint)
      : fingerprint_(std::move(fingerprint)) {}
  Result<std::optional<Fingerprint>> Next() override {
    return std::exchange(fingerprint_, std::nullopt);
  }
  void Cancel() override {}

 private:
  std::optional<Fingerprint> fingerprint_;
};

}  // namespace

void FakeTasks::End(const std::string& task, const ExitResult& result) {
  const std::lock_guard lock(mutex_);
  for (auto& [id, one] : tasks_) {
    if (TaskOf(one.config) == task && one.running) {
      one.running = false;
      one.result = result;
    }
  }
  changed_.notify_all();
}

void FakeTasks::FailStart(Error error, bool has_effect) {
  const std::lock_guard lock(mutex_);
  failures_.push_back({std::move(error), has_effect});
}

void FakeTasks::FailDestroy(Error error, std::size_t count) {
  const std::lock_guard lock(mutex_);
  destroy_failures_.assign(count, std::move(error));
}

void FakeTasks::RefuseStop(Error error) {
  const std::lock_guard lock(mutex_);
  stop_failure_ = std::move(error);
}

void FakeTasks::SetControllers(std::optional<std::string> controllers) {
  const std::lock_guard lock(mutex_);
  controllers_ = std::move(controllers);
}

std::optional<TaskConfig> FakeTasks::config(const std::string& task) {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, one] : tasks_) {
    if (TaskOf(one.config) == task) {
      return one.config;
    }
  }
  return std::nullopt;
}

void FakeTasks::Reboot() {
  const std::lock_guard lock(mutex_);
  tasks_.clear();
}

std::vector<std::string> FakeTasks::calls() {
  const std::lock_guard lock(mutex_);
  return calls_;
}

std::size_t FakeTasks::running(const std::string& task) {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(tasks_.begin(), tasks_.end(), [&](const auto& one) {
        return TaskOf(one.second.config) == task && one.second.running;
      }));
}

void FakeTasks::AwaitStarts(const std::string& task, std::size_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return std::count(calls_.begin(), calls_.end(), "start " + task) >=
           static_cast<std::ptrdiff_t>(count);
  });
}

void FakeTasks::Record(const std::string& verb, const std::string& task) {
  calls_.push_back(verb + " " + task);
  changed_.notify_all();
}

Result<FakeTasks::Task*> FakeTaskDriver::Known(const std::string& id) {
  const auto task = tasks_.tasks_.find(id);
  if (!known_.contains(id) || task == tasks_.tasks_.end()) {
    return NotKnown(id);
  }
  return &task->second;
}

DriverCapabilities FakeTaskDriver::Capabilities() {
  DriverCapabilities capabilities;
  capabilities.executes = true;
  capabilities.must_create_network = true;
  return capabilities;
}

Result<std::unique_ptr<Stream<Fingerprint>>> FakeTaskDriver::Fingerprints() {
  const std::lock_guard lock(tasks_.mutex_);
  Fingerprint fingerprint;
  fingerprint.health = Health::kHealthy;
  fingerprint.attributes["driver.oci.cgroup"] = tasks_.controllers_.has_value();
  if (tasks_.controllers_) {
    fingerprint.attributes["driver.oci.cgroup.controllers"] =
        *tasks_.controllers_;
  } else {
    fingerprint.description = "tasks have no limits: not delegated";
  }
  return std::unique_ptr<Stream<Fingerprint>>(
      std::make_unique<OneFingerprint>(std::move(fingerprint)));
}

Result<CreatedNetwork> FakeTaskDriver::CreateNetwork(
    const std::string& allocation, const std::string& /*hostname*/) {
  const std::lock_guard lock(tasks_.mutex_);
  tasks_.Record("create-network", allocation);
  CreatedNetwork network;
  network.isolation.mode = NetworkMode::kGroup;
  return network;
}

Result<void> FakeTaskDriver::DestroyNetwork(
    const std::string& allocation, const NetworkIsolation& /*isolation*/) {
  const std::lock_guard lock(tasks_.mutex_);
  tasks_.Record("destroy-network", allocation);
  return Ok();
}

Result<StartedTask> FakeTaskDriver::StartTask(const TaskConfig& config) {
  const std::lock_guard lock(tasks_.mutex_);
  std::optional<FakeTasks::Failure> failure;
  if (!tasks_.failures_.empty()) {
    failure = std::move(tasks_.failures_.front());
    tasks_.failures_.pop_front();
  }
  if (failure && !failure->has_effect) {
    return failure->error;
  }
  const auto [task, is_new] =
      tasks_.tasks_.emplace(config.id, FakeTasks::Task{config, true, {}});
  if (!is_new && task->second.config != config) {
    return MakeError(Code::kAlreadyExists, "start", config.id);
  }
  known_.insert(config.id);
  if (is_new) {
    tasks_.Record("start", TaskOf(config));
  }
  if (failure) {
    return failure->error;
  }
  StartedTask started;
  started.handle.config = config;
  started.handle.state = TaskState::kRunning;
  started.handle.driver_state = std::string("\0\xff", 2) + config.id;
  return started;
}

Result<void> FakeTaskDriver::RecoverTask(const TaskHandle& handle) {
  const std::lock_guard lock(tasks_.mutex_);
  if (!tasks_.tasks_.contains(handle.config.id)) {
    return NotKnown(handle.config.id);
  }
  known_.insert(handle.config.id);
  return Ok();
}

Result<ExitResult> FakeTaskDriver::WaitTask(const std::string& id) {
  std::unique_lock lock(tasks_.mutex_);
  for (;;) {
    MOUNTD_ASSIGN(const FakeTasks::Task* task, Known(id));
    if (!task->running) {
      return task->result;
    }
    if (shut_down_) {
      return MakeError(Code::kAborted, "wait", id);
    }
    tasks_.changed_.wait(lock);
  }
}

Result<void> FakeTaskDriver::StopTask(const std::string& id,
                                      std::chrono::milliseconds timeout,
                                      const std::string& signal) {
  const std::lock_guard lock(tasks_.mutex_);
  MOUNTD_ASSIGN(FakeTasks::Task * task, Known(id));
  if (tasks_.stop_failure_) {
    return *tasks_.stop_failure_;
  }
  if (task->running) {
    tasks_.Record("stop", TaskOf(task->config) + " " + signal + " " +
                              std::to_string(timeout.count()));
    task->running = false;
    task->result.signal = 15;
    tasks_.changed_.notify_all();
  }
  return Ok();
}

Result<void> FakeTaskDriver::DestroyTask(const std::string& id, bool force) {
  const std::lock_guard lock(tasks_.mutex_);
  MOUNTD_ASSIGN(const FakeTasks::Task* task, Known(id));
  if (!tasks_.destroy_failures_.empty()) {
    Error error = std::move(tasks_.destroy_failures_.front());
    tasks_.destroy_failures_.pop_front();
    return error;
  }
  if (task->running && !force) {
    return MakeError(Code::kFailedPrecondition, "destroy", id, "runs");
  }
  tasks_.Record("destroy", TaskOf(task->config));
  tasks_.tasks_.erase(id);
  return Ok();
}

Result<void> FakeTaskDriver::RemoveDirectory(const std::string& path) {
  {
    const std::lock_guard lock(tasks_.mutex_);
    tasks_.Record("remove-directory",
                  std::filesystem::path(path).filename().string());
  }
  std::error_code failed;
  std::filesystem::remove_all(path, failed);
  return failed ? Result<void>(ErrnoError(failed.value(), "remove", path))
                : Ok();
}

Result<TaskStatus> FakeTaskDriver::InspectTask(const std::string& id) {
  const std::lock_guard lock(tasks_.mutex_);
  MOUNTD_ASSIGN(const FakeTasks::Task* task, Known(id));
  TaskStatus status;
  status.id = id;
  status.name = task->config.name;
  status.state = task->running ? TaskState::kRunning : TaskState::kExited;
  if (!task->running) {
    status.result = task->result;
  }
  return status;
}

Result<void> FakeTaskDriver::SignalTask(const std::string& id,
                                        const std::string& signal) {
  const std::lock_guard lock(tasks_.mutex_);
  MOUNTD_ASSIGN(const FakeTasks::Task* task, Known(id));
  tasks_.Record("signal", TaskOf(task->config) + " " + signal);
  return Ok();
}

Result<void> FakeTaskDriver::UpdateTask(const std::string& id,
                                        const TaskResources& /*resources*/) {
  return NotKnown(id);
}

Result<std::unique_ptr<Stream<TaskStats>>> FakeTaskDriver::Stats(
    const std::string& id, std::chrono::milliseconds /*interval*/) {
  const std::lock_guard lock(tasks_.mutex_);
  MOUNTD_TRY(Known(id));
  return std::unique_ptr<Stream<TaskStats>>(std::make_unique<OneStats>());
}

Result<std::unique_ptr<Stream<TaskEvent>>> FakeTaskDriver::Events() {
  return MakeError(Code::kNotSupported, "events", "");
}

Result<ExecOutput> FakeTaskDriver::ExecTask(
    const std::string& id, const std::vector<std::string>& /*command*/,
    std::chrono::milliseconds /*timeout*/) {
  return NotKnown(id);
}

Result<ExitResult> FakeTaskDriver::ExecTaskStreaming(
    const std::string& task_id, const ExecOptions& options) {
  {
    const std::lock_guard lock(tasks_.mutex_);
    MOUNTD_TRY(Known(task_id));
  }
  const auto say = [&](const std::string& line) {
    (void)!::write(options.stdout_fd, line.data(), line.size());
  };
  std::string words;
  for (const std::string& word : options.command) {
    words += word + " ";
  }
  say(words + (options.terminal ? "with a terminal\n" : "\n"));
  ExitResult result;
  const std::string& verb = options.command.at(0);
  const int number = verb != "say" && options.command.size() > 1
                         ? std::stoi(options.command[1])
                         : 0;
  if (verb == "exit") {
    result.exit_code = number;
  } else if (verb == "kill") {
    result.signal = number;
  } else if (verb == "sizes" && options.sizes != nullptr) {
    for (int i = 0; i < number; ++i) {
      MOUNTD_ASSIGN(const auto size, options.sizes->Next());
      if (!size) {
        break;
      }
      say(std::to_string(size->rows) + "x" + std::to_string(size->columns) +
          "\n");
    }
  } else if (verb == "wait") {
    std::unique_lock lock(tasks_.mutex_);
    tasks_.changed_.wait(lock, [this] { return shut_down_; });
    return MakeError(Code::kAborted, "exec", task_id);
  } else if (verb == "epipe") {
    return ErrnoError(EPIPE, "write", "exec");
  } else if (verb == "missing" || verb == "denied") {
    return MakeError(Code::kFailedPrecondition, "exec", task_id,
                     verb == "missing"
                         ? "executable file `missing` not found in $PATH"
                         : "exec denied: Permission denied");
  } else if (verb == "fail") {
    return MakeError(Code::kUnavailable, "exec", task_id, "as the test says");
  }
  return result;
}

void FakeTaskDriver::Shutdown() {
  const std::lock_guard lock(tasks_.mutex_);
  shut_down_ = true;
  tasks_.changed_.notify_all();
}

}  // namespace mountd::driver::test
