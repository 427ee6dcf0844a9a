// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <nomad_drivers.grpc.pb.h>

#include <chrono>

#include "agent/nomad/goplugin/hclog.h"
#include "agent/nomad/plugin/call_threads.h"
#include "agent/nomad/plugin/driver_source.h"
#include "agent/nomad/plugin/task_waits.h"

namespace mountd::nomad {

namespace wire = hashicorp::nomad::plugins::drivers::proto;

// Serves a task driver to Nomad. Each call that works has a thread of its own,
// because a driver's calls block; all waits for one task share one thread.
class DriverService final : public wire::Driver::CallbackService {
 public:
  // Source and log outlive the service. After an error of the driver the
  // service tries again after `pause`.
  DriverService(DriverSource& source, goplugin::Hclog& log,
                std::chrono::milliseconds pause = std::chrono::seconds(5));
  // Shuts the driver down, and waits for all calls. Ends no task.
  ~DriverService() override;
  DriverService(const DriverService&) = delete;
  DriverService& operator=(const DriverService&) = delete;

 private:
  using Context = grpc::CallbackServerContext;
  using Unary = grpc::ServerUnaryReactor;

  // Runs the call of driver_calls.h on a thread.
  template <typename Request, typename Response>
  Unary* Call(const char* name, Context* context, const Request* request,
              Response* response);

  Unary* Init(Context* context, const wire::InitRequest* request,
              wire::InitResponse* response) override;
  Unary* Shutdown(Context* context, const wire::ShutdownRequest* request,
                  wire::ShutdownResponse* response) override;
  Unary* TaskConfigSchema(Context* context,
                          const wire::TaskConfigSchemaRequest* request,
                          wire::TaskConfigSchemaResponse* response) override;
  Unary* Capabilities(Context* context,
                      const wire::CapabilitiesRequest* request,
                      wire::CapabilitiesResponse* response) override;
  Unary* RecoverTask(Context* context, const wire::RecoverTaskRequest* request,
                     wire::RecoverTaskResponse* response) override;
  Unary* StartTask(Context* context, const wire::StartTaskRequest* request,
                   wire::StartTaskResponse* response) override;
  Unary* StopTask(Context* context, const wire::StopTaskRequest* request,
                  wire::StopTaskResponse* response) override;
  Unary* DestroyTask(Context* context, const wire::DestroyTaskRequest* request,
                     wire::DestroyTaskResponse* response) override;
  Unary* InspectTask(Context* context, const wire::InspectTaskRequest* request,
                     wire::InspectTaskResponse* response) override;
  Unary* SignalTask(Context* context, const wire::SignalTaskRequest* request,
                    wire::SignalTaskResponse* response) override;
  Unary* ExecTask(Context* context, const wire::ExecTaskRequest* request,
                  wire::ExecTaskResponse* response) override;
  Unary* CreateNetwork(Context* context,
                       const wire::CreateNetworkRequest* request,
                       wire::CreateNetworkResponse* response) override;
  Unary* DestroyNetwork(Context* context,
                        const wire::DestroyNetworkRequest* request,
                        wire::DestroyNetworkResponse* response) override;
  Unary* WaitTask(Context* context, const wire::WaitTaskRequest* request,
                  wire::WaitTaskResponse* response) override;
  grpc::ServerWriteReactor<wire::FingerprintResponse>* Fingerprint(
      Context* context, const wire::FingerprintRequest* request) override;
  grpc::ServerWriteReactor<wire::TaskStatsResponse>* TaskStats(
      Context* context, const wire::TaskStatsRequest* request) override;
  grpc::ServerWriteReactor<wire::DriverTaskEvent>* TaskEvents(
      Context* context, const wire::TaskEventsRequest* request) override;
  grpc::ServerBidiReactor<wire::ExecTaskStreamingRequest,
                          wire::ExecTaskStreamingResponse>*
  ExecTaskStreaming(Context* context) override;

  DriverSource& source_;
  goplugin::Hclog& log_;
  const std::chrono::milliseconds pause_;
  CallThreads threads_;
  TaskWaits waits_;
};

}  // namespace mountd::nomad
