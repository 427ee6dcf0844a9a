// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/plugin/driver_service.h"

#include <memory>
#include <optional>

#include "agent/nomad/plugin/call_status.h"
#include "agent/nomad/plugin/driver_calls.h"
#include "agent/nomad/plugin/exec_call.h"
#include "agent/nomad/plugin/replies.h"
#include "agent/nomad/plugin/stream_call.h"
#include "agent/nomad/plugin/task_request.h"

namespace mountd::nomad {
namespace {

grpc::ServerUnaryReactor* OkAtOnce(grpc::CallbackServerContext* context) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

// The end of a command's time is the answer, not a failure that may pass.
grpc::Status StatusOfCall(const Result<void>& result,
                          const wire::ExecTaskRequest* /*request*/) {
  return !result && result.error().code == Code::kDeadlineExceeded
             ? grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED,
                            result.error().Message())
             : StatusOf(result);
}

template <typename Request>
grpc::Status StatusOfCall(const Result<void>& result,
                          const Request* /*request*/) {
  return StatusOf(result);
}

// One wait of Nomad's. Deletes itself at its end.
class WaitCall final : public grpc::ServerUnaryReactor, public Waiter {
 public:
  WaitCall(TaskWaits& waits, std::string task_id,
           wire::WaitTaskResponse* response)
      : waits_(waits), task_id_(std::move(task_id)), response_(response) {
    if (!waits_.Add(task_id_, *this)) {
      Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "no more threads"});
    }
  }

  void Answer(const Result<driver::ExitResult>& result) override {
    if (result) {
      Fill(*result, response_->mutable_result());
      response_->set_err(result->error);
    }
    Finish(StatusOf(result));
  }
  void OnCancel() override {
    if (waits_.Remove(task_id_, *this)) {
      Finish(grpc::Status::CANCELLED);
    }
  }
  void OnDone() override { delete this; }

 private:
  TaskWaits& waits_;
  const std::string task_id_;
  wire::WaitTaskResponse* response_;
};

}  // namespace

DriverService::DriverService(DriverSource& source, goplugin::Hclog& log,
                             std::chrono::milliseconds pause)
    : source_(source),
      log_(log),
      pause_(pause),
      waits_(
          threads_, [&source] { return source.Driver(); }, pause) {}

DriverService::~DriverService() {
  source_.Shutdown();
  waits_.Stop();
}

template <typename Request, typename Response>
grpc::ServerUnaryReactor* DriverService::Call(const char* name,
                                              Context* context,
                                              const Request* request,
                                              Response* response) {
  Unary* reactor = context->DefaultReactor();
  const bool runs = threads_.Run([this, name, reactor, request, response] {
    const Result<void> result = Answer(source_, *request, response);
    if (!result) {
      log_.Write(goplugin::LogLevel::kWarn, result.error().Message(),
                 {{"call", name}});
    }
    reactor->Finish(StatusOfCall(result, request));
  });
  if (!runs) {
    reactor->Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "no more threads"});
  }
  return reactor;
}

// The driver is made by the first call that needs it.
grpc::ServerUnaryReactor* DriverService::Init(
    Context* context, const wire::InitRequest* /*request*/,
    wire::InitResponse* /*response*/) {
  return OkAtOnce(context);
}

// The controller's Shutdown ends the plugin.
grpc::ServerUnaryReactor* DriverService::Shutdown(
    Context* context, const wire::ShutdownRequest* /*request*/,
    wire::ShutdownResponse* /*response*/) {
  return OkAtOnce(context);
}

grpc::ServerUnaryReactor* DriverService::TaskConfigSchema(
    Context* context, const wire::TaskConfigSchemaRequest* request,
    wire::TaskConfigSchemaResponse* response) {
  return Call("TaskConfigSchema", context, request, response);
}

grpc::ServerUnaryReactor* DriverService::Capabilities(
    Context* context, const wire::CapabilitiesRequest* request,
    wire::CapabilitiesResponse* response) {
  return Call("Capabilities", context, request, response);
}

grpc::ServerUnaryReactor* DriverService::RecoverTask(
    Context* context, const wire::RecoverTaskRequest* request,
    wire::RecoverTaskResponse* response) {
  return Call("RecoverTask", context, request, response);
}

grpc::ServerUnaryReactor* DriverService::StartTask(
    Context* context, const wire::StartTaskRequest* request,
    wire::StartTaskResponse* response) {
  return Call("StartTask", context, request, response);
}

grpc::ServerUnaryReactor* DriverService::StopTask(
    Context* context, const wire::StopTaskRequest* request,
    wire::StopTaskResponse* response) {
  return Call("StopTask", context, request, response);
}

grpc::ServerUnaryReactor* DriverService::DestroyTask(
    Context* context, const wire::DestroyTaskRequest* request,
    wire::DestroyTaskResponse* response) {
  return Call("DestroyTask", context, request, response);
}

grpc::ServerUnaryReactor* DriverService::InspectTask(
    Context* context, const wire::InspectTaskRequest* request,
    wire::InspectTaskResponse* response) {
  return Call("InspectTask", context, request, response);
}

grpc::ServerUnaryReactor* DriverService::SignalTask(
    Context* context, const wire::SignalTaskRequest* request,
    wire::SignalTaskResponse* response) {
  return Call("SignalTask", context, request, response);
}

grpc::ServerUnaryReactor* DriverService::ExecTask(
    Context* context, const wire::ExecTaskRequest* request,
    wire::ExecTaskResponse* response) {
  return Call("ExecTask", context, request, response);
}

grpc::ServerUnaryReactor* DriverService::CreateNetwork(
    Context* context, const wire::CreateNetworkRequest* request,
    wire::CreateNetworkResponse* response) {
  return Call("CreateNetwork", context, request, response);
}

grpc::ServerUnaryReactor* DriverService::DestroyNetwork(
    Context* context, const wire::DestroyNetworkRequest* request,
    wire::DestroyNetworkResponse* response) {
  return Call("DestroyNetwork", context, request, response);
}

grpc::ServerUnaryReactor* DriverService::WaitTask(
    Context* /*context*/, const wire::WaitTaskRequest* request,
    wire::WaitTaskResponse* response) {
  return new WaitCall(waits_, request->task_id(), response);
}

grpc::ServerWriteReactor<wire::FingerprintResponse>* DriverService::Fingerprint(
    Context* /*context*/, const wire::FingerprintRequest* /*request*/) {
  using Call = StreamCall<driver::Fingerprint, wire::FingerprintResponse>;
  Call::Plan plan;
  plan.open =
      [this]() -> Result<std::unique_ptr<driver::Stream<driver::Fingerprint>>> {
    MOUNTD_ASSIGN(driver::TaskDriver * driver, source_.Driver());
    return driver->Fingerprints();
  };
  plan.fill = [](const driver::Fingerprint& from,
                 wire::FingerprintResponse* to) { Fill(from, to); };
  // The client learns why there is no driver, and later that there is one.
  plan.fill_error = [](const Error& error, wire::FingerprintResponse* to) {
    Fill(driver::Fingerprint{{}, driver::Health::kUnhealthy, error.Message()},
         to);
    return true;
  };
  plan.pause = pause_;
  return new Call(threads_, std::move(plan));
}

grpc::ServerWriteReactor<wire::TaskStatsResponse>* DriverService::TaskStats(
    Context* /*context*/, const wire::TaskStatsRequest* request) {
  using Call = StreamCall<driver::TaskStats, wire::TaskStatsResponse>;
  const std::string id = request->task_id();
  const auto interval = DurationOf(request->collection_interval());
  Call::Plan plan;
  plan.open = [this, id, interval]()
      -> Result<std::unique_ptr<driver::Stream<driver::TaskStats>>> {
    MOUNTD_ASSIGN(driver::TaskDriver * driver, source_.Driver());
    return driver->Stats(id, interval);
  };
  plan.fill = [id,
               before = std::make_shared<std::optional<driver::TaskStats>>()](
                  const driver::TaskStats& from, wire::TaskStatsResponse* to) {
    Fill(from, *before, to->mutable_stats());
    to->mutable_stats()->set_id(id);
    *before = from;
  };
  return new Call(threads_, std::move(plan));
}

grpc::ServerWriteReactor<wire::DriverTaskEvent>* DriverService::TaskEvents(
    Context* /*context*/, const wire::TaskEventsRequest* /*request*/) {
  using Call = StreamCall<driver::TaskEvent, wire::DriverTaskEvent>;
  Call::Plan plan;
  plan.open =
      [this]() -> Result<std::unique_ptr<driver::Stream<driver::TaskEvent>>> {
    MOUNTD_ASSIGN(driver::TaskDriver * driver, source_.Driver());
    return driver->Events();
  };
  plan.fill = [](const driver::TaskEvent& from, wire::DriverTaskEvent* to) {
    Fill(from, to);
  };
  plan.fill_error = [](const Error& /*error*/, wire::DriverTaskEvent* /*to*/) {
    return false;
  };
  plan.pause = pause_;
  return new Call(threads_, std::move(plan));
}

grpc::ServerBidiReactor<wire::ExecTaskStreamingRequest,
                        wire::ExecTaskStreamingResponse>*
DriverService::ExecTaskStreaming(Context* /*context*/) {
  return new ExecCall(threads_, [this] { return source_.Driver(); });
}

}  // namespace mountd::nomad
