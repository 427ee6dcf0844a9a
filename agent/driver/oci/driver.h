// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/driver/oci/container_plan.h"
#include "agent/driver/oci/event_bus.h"
#include "agent/driver/oci/host.h"
#include "agent/driver/oci/sight.h"
#include "agent/driver/oci/task_store.h"
#include "agent/driver/protocol/message.h"
#include "agent/driver/task_driver.h"
#include "mountd/base/unique_fd.h"

namespace mountd::driver {

// Runs tasks as rootless OCI containers. Keeps nothing of a task in memory.
// Each call looks at the disk and asks the shim, so a driver that replaces a
// killed one and drivers in other processes give the same answers.
class OciDriver final : public TaskDriver, public StreamingExec {
 public:
  explicit OciDriver(std::shared_ptr<Host> host);
  ~OciDriver() override;

  // fingerprint.cc
  DriverCapabilities Capabilities() override;
  std::vector<SchemaKey> ConfigSchema() override;
  Result<std::unique_ptr<Stream<Fingerprint>>> Fingerprints() override;
  // network.cc
  Result<CreatedNetwork> CreateNetwork(const std::string& allocation,
                                       const std::string& hostname) override;
  Result<void> DestroyNetwork(const std::string& allocation,
                              const NetworkIsolation& isolation) override;
  // start.cc
  Result<StartedTask> StartTask(const TaskConfig& config) override;
  // recover.cc
  Result<void> RecoverTask(const TaskHandle& handle) override;
  Result<void> DestroyTask(const std::string& id, bool force) override;
  Result<void> RemoveDirectory(const std::string& path) override;
  Result<TaskStatus> InspectTask(const std::string& id) override;
  // wait.cc
  Result<ExitResult> WaitTask(const std::string& id) override;
  Result<void> StopTask(const std::string& id,
                        std::chrono::milliseconds timeout,
                        const std::string& signal) override;
  Result<void> SignalTask(const std::string& id,
                          const std::string& signal) override;
  // stats.cc
  Result<void> UpdateTask(const std::string& id,
                          const TaskResources& resources) override;
  Result<std::unique_ptr<Stream<TaskStats>>> Stats(
      const std::string& id, std::chrono::milliseconds interval) override;
  Result<std::unique_ptr<Stream<TaskEvent>>> Events() override;
  // exec.cc
  Result<ExecOutput> ExecTask(const std::string& id,
                              const std::vector<std::string>& command,
                              std::chrono::milliseconds timeout) override;
  Result<ExitResult> ExecTaskStreaming(const std::string& task_id,
                                       const ExecOptions& options) override;
  StreamingExec* streaming_exec() override { return this; }
  void Shutdown() override;

 private:
  // start.cc
  Result<bool> Resume(const TaskPlace& place);
  Result<bool> ResumeLost(const TaskPlace& place);
  Result<void> KillLost(const TaskPlace& place) const;
  Result<void> Finish(const TaskPlace& place, shim::ShimConnection& shim);
  Result<bool> HasRunDespite(const Error& error, const TaskPlace& place);
  Result<void> Launch(const TaskConfig& config, const std::string& digest);
  Result<shim::ShimConnection> LaunchShimOf(const TaskPlace& place,
                                            const ContainerPlan& plan,
                                            const TaskConfig& config);
  void GiveUpStart(const TaskPlace& place, const Error& error,
                   std::optional<shim::ShimConnection> shim);
  void Abandon(const std::string& task_id,
               std::optional<shim::ShimConnection> shim);
  Result<void> Verify(const TaskPlace& place, int pidfd);

  // recover.cc: ends the shim of a task that may be destroyed.
  Result<void> EndShim(const TaskPlace& place, bool force) const;

  // driver.cc
  void Tell(const TaskRecord& record, std::string message);

  // wait.cc: a request whose answer may take long. Aborted after Shutdown;
  // DeadlineExceeded if the answer does not come in time.
  Result<shim::Answer> CallUntilShutdown(
      shim::ShimConnection& shim, const shim::Message& request,
      std::optional<std::chrono::milliseconds> patience = {}) const;
  Result<void> StopByShim(const TaskPlace& place, int signal,
                          std::chrono::milliseconds timeout);
  // Ends a task whose shim does not answer, and the shim. The exit status is
  // lost then.
  Result<void> KillHung(const TaskPlace& place) const;
  Result<void> StopLost(const TaskPlace& place, int signal,
                        std::chrono::milliseconds timeout);

  std::shared_ptr<Host> host_;  // streams outlive the driver
  TaskStore store_;
  EventBus events_;
};

}  // namespace mountd::driver
