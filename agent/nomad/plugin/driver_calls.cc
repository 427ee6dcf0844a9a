// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/plugin/driver_calls.h"

#include <chrono>

#include "agent/nomad/plugin/replies.h"
#include "agent/nomad/plugin/schema.h"
#include "agent/nomad/plugin/task_request.h"

namespace mountd::nomad {
namespace {

// Nomad reads the hostname of a namespace here, and gives it to the tasks.
constexpr char kHostnameLabel[] = "docker_sandbox_hostname";
// Nomad's word for no timeout is 0.
constexpr std::chrono::hours kNoTimeout{24 * 365};

Result<void> OkIfGone(const Result<void>& result) {
  return !result && result.error().code == Code::kNotFound ? Ok() : result;
}

Result<driver::TaskConfig> ConfigOf(driver::TaskDriver& driver,
                                    const wire::TaskConfig& task) {
  return TaskConfigOf(task, TaskKeys(driver.ConfigSchema()));
}

}  // namespace

Result<void> Answer(DriverSource& source,
                    const wire::TaskConfigSchemaRequest& /*request*/,
                    wire::TaskConfigSchemaResponse* response) {
  MOUNTD_ASSIGN(driver::TaskDriver * driver, source.Driver());
  *response->mutable_spec() = SpecOf(TaskKeys(driver->ConfigSchema()));
  return Ok();
}

Result<void> Answer(DriverSource& source,
                    const wire::CapabilitiesRequest& /*request*/,
                    wire::CapabilitiesResponse* response) {
  MOUNTD_ASSIGN(driver::TaskDriver * driver, source.Driver());
  Fill(driver->Capabilities(), response->mutable_capabilities());
  return Ok();
}

Result<void> Answer(DriverSource& source,
                    const wire::RecoverTaskRequest& request,
                    wire::RecoverTaskResponse* /*response*/) {
  MOUNTD_ASSIGN(driver::TaskDriver * driver, source.Driver());
  driver::TaskHandle handle;
  handle.version = request.handle().version();
  handle.driver_state = request.handle().driver_state();
  switch (request.handle().state()) {
    case wire::RUNNING:
      handle.state = driver::TaskState::kRunning;
      break;
    case wire::EXITED:
      handle.state = driver::TaskState::kExited;
      break;
    default:
      break;
  }
  const wire::TaskConfig& config = request.handle().config();
  handle.config.id = config.id();
  handle.config.allocation = AllocationOf(config.alloc_id());
  handle.config.name = config.name();
  return driver->RecoverTask(handle);
}

Result<void> Answer(DriverSource& source, const wire::StartTaskRequest& request,
                    wire::StartTaskResponse* response) {
  MOUNTD_ASSIGN(Node * node, source.Get());
  MOUNTD_ASSIGN(driver::TaskConfig config,
                ConfigOf(*node->driver, request.task()));
  MOUNTD_ASSIGN(config.image, CheckImage(source.settings(), config.image));
  MOUNTD_TRY(node->allocations->MountHostVolumes(&config));
  const Result<driver::StartedTask> started = node->driver->StartTask(config);
  if (!started) {
    // Nomad destroys no task that has not started.
    IgnoreBecauseBestEffort(
        node->allocations->UnmountHostVolumes(config.allocation, config.name));
    return started.error();
  }
  wire::TaskHandle* handle = response->mutable_handle();
  handle->set_version(started->handle.version);
  *handle->mutable_config() = request.task();
  handle->set_state(started->handle.state == driver::TaskState::kExited
                        ? wire::EXITED
                        : wire::RUNNING);
  handle->set_driver_state(started->handle.driver_state);
  if (started->network) {
    Fill(*started->network, response->mutable_network_override());
  }
  return Ok();
}

Result<void> Answer(DriverSource& source, const wire::StopTaskRequest& request,
                    wire::StopTaskResponse* /*response*/) {
  MOUNTD_ASSIGN(driver::TaskDriver * driver, source.Driver());
  return OkIfGone(driver->StopTask(
      request.task_id(), DurationOf(request.timeout()), request.signal()));
}

Result<void> Answer(DriverSource& source,
                    const wire::DestroyTaskRequest& request,
                    wire::DestroyTaskResponse* /*response*/) {
  MOUNTD_ASSIGN(Node * node, source.Get());
  MOUNTD_TRY(
      OkIfGone(node->driver->DestroyTask(request.task_id(), request.force())));
  const auto names = NamesOfTask(request.task_id());
  return names ? node->allocations->UnmountHostVolumes(names->allocation,
                                                       names->task)
               : Ok();
}

Result<void> Answer(DriverSource& source,
                    const wire::InspectTaskRequest& request,
                    wire::InspectTaskResponse* response) {
  MOUNTD_ASSIGN(driver::TaskDriver * driver, source.Driver());
  MOUNTD_ASSIGN(const driver::TaskStatus status,
                driver->InspectTask(request.task_id()));
  Fill(status, response);
  return Ok();
}

Result<void> Answer(DriverSource& source,
                    const wire::SignalTaskRequest& request,
                    wire::SignalTaskResponse* /*response*/) {
  MOUNTD_ASSIGN(driver::TaskDriver * driver, source.Driver());
  return driver->SignalTask(request.task_id(), request.signal());
}

Result<void> Answer(DriverSource& source, const wire::ExecTaskRequest& request,
                    wire::ExecTaskResponse* response) {
  MOUNTD_ASSIGN(driver::TaskDriver * driver, source.Driver());
  std::chrono::milliseconds timeout = DurationOf(request.timeout());
  if (timeout.count() == 0) {
    timeout = kNoTimeout;
  }
  MOUNTD_ASSIGN(
      const driver::ExecOutput output,
      driver->ExecTask(request.task_id(),
                       {request.command().begin(), request.command().end()},
                       timeout));
  response->set_stdout(output.stdout_text);
  response->set_stderr(output.stderr_text);
  Fill(output.result, response->mutable_result());
  return Ok();
}

Result<void> Answer(DriverSource& source,
                    const wire::CreateNetworkRequest& request,
                    wire::CreateNetworkResponse* response) {
  MOUNTD_ASSIGN(Node * node, source.Get());
  const std::string allocation = AllocationOf(request.alloc_id());
  MOUNTD_TRY(node->allocations->Prepare(allocation));
  MOUNTD_ASSIGN(driver::CreatedNetwork network,
                node->driver->CreateNetwork(allocation, request.hostname()));
  if (!request.hostname().empty()) {
    network.isolation.labels[kHostnameLabel] = request.hostname();
  }
  Fill(network.isolation, response->mutable_isolation_spec());
  response->set_created(network.created);
  return Ok();
}

Result<void> Answer(DriverSource& source,
                    const wire::DestroyNetworkRequest& request,
                    wire::DestroyNetworkResponse* /*response*/) {
  MOUNTD_ASSIGN(Node * node, source.Get());
  const std::string allocation = AllocationOf(request.alloc_id());
  MOUNTD_TRY(node->driver->DestroyNetwork(
      allocation, IsolationOf(request.isolation_spec())));
  return node->allocations->ReleaseIfBare(allocation);
}

}  // namespace mountd::nomad
