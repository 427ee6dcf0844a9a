// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/mountd-csi/call.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "csi-node/mountd-csi/controller_rpc.h"
#include "csi-node/mountd-csi/scrub.h"
#include "csi-node/mountd-csi/values_to_proto.h"

namespace mountd::csi {
namespace {

std::int64_t RemainingMs(std::int64_t deadline_ms) {
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      Clock::now().time_since_epoch());
  return deadline_ms - now.count();
}

std::vector<std::string> MountFlags(const ipc::Arguments& arguments) {
  if (const auto* stage = std::get_if<StageRequest>(&arguments)) {
    return stage->capability.mount_flags;
  }
  if (const auto* publish = std::get_if<PublishRequest>(&arguments)) {
    return publish->capability.mount_flags;
  }
  if (const auto* expand = std::get_if<ExpandRequest>(&arguments)) {
    return expand->capability.mount_flags;
  }
  return {};
}

// DataLoss, because the plugin has answered and so may have done the call.
RpcError Unreadable() {
  return {RpcCode::kDataLoss, "the plugin's answer is not readable"};
}

template <typename Message>
void WipeMessage(Message* message) {
  if constexpr (requires { message->mutable_secrets(); }) {
    WipeSecrets(message->mutable_secrets());
  }
}

// Owns what has to outlive the RPC for gRPC.
template <typename Message, typename Response>
struct Rpc {
  ~Rpc() { WipeMessage(&message); }

  grpc::ClientContext context;
  Message message;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> reader;
  Response response;
  grpc::Status status;
};

}  // namespace

std::shared_ptr<Call> Call::Make(std::shared_ptr<PluginChannel> channel,
                                 ipc::Request request, Secrets secrets,
                                 RpcQueue* queue, Done done) {
  std::shared_ptr<Call> call(new Call);
  call->channel_ = std::move(channel);
  call->request_ = std::move(request);
  call->mount_flags_ = MountFlags(call->request_.arguments);
  call->secrets_ = std::move(secrets);
  call->queue_ = queue;
  call->done_ = std::move(done);
  return call;
}

void Call::Cancel() {
  cancelled_ = true;
  if (context_ != nullptr) {
    context_->TryCancel();
  }
}

bool Call::Prepare(const std::shared_ptr<grpc::ClientContext>& context) {
  const std::int64_t remaining = RemainingMs(request_.deadline_ms);
  if (cancelled_ || remaining <= 0) {
    // Neither code is final. This call has sent nothing, but an earlier try of
    // the caller may have.
    Fail({cancelled_ ? RpcCode::kCancelled : RpcCode::kDeadlineExceeded,
          cancelled_ ? "cancelled"
                     : "the plugin did not answer before the deadline"});
    return false;
  }
  // Uses the monotonic clock, because the request's deadline is on this clock
  // and the wall clock may jump.
  context->set_deadline(
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                   gpr_time_from_millis(remaining, GPR_TIMESPAN)));
  if (request_.trace) {
    context->AddMetadata("traceparent", ToText(*request_.trace));
  }
  context_ = context;
  return true;
}

template <typename Stub, typename Message, typename Response, typename Then>
void Call::Unary(Stub* stub, AsyncMethod<Stub, Message, Response> method,
                 Message message, Then then, bool unimplemented_is_empty) {
  auto rpc = std::make_shared<Rpc<Message, Response>>();
  rpc->message = std::move(message);
  if (!Prepare(std::shared_ptr<grpc::ClientContext>(rpc, &rpc->context))) {
    return;
  }
  rpc->reader = (stub->*method)(&rpc->context, rpc->message, queue_->queue());
  auto done = [self = shared_from_this(), rpc, then = std::move(then),
               unimplemented_is_empty](bool read) {
    self->context_.reset();
    if (rpc->status.ok() && !read) {
      self->Fail(Unreadable());
    } else if (rpc->status.ok()) {
      then(rpc->response);
    } else if (unimplemented_is_empty &&
               rpc->status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
      then(Response());
    } else {
      self->FailWith(rpc->status);
    }
  };
  rpc->reader->Finish(&rpc->response, &rpc->status,
                      queue_->Tag(std::move(done)));
}

template <typename Stub, typename Message, typename Response>
void Call::UnaryForNothing(Stub* stub,
                           AsyncMethod<Stub, Message, Response> method,
                           Message message) {
  Unary(stub, method, std::move(message),
        [this](const Response& /*empty*/) { Finish({}); });
}

template <typename Stub, typename Message, typename Response>
void Call::UnaryForAnswer(Stub* stub,
                          AsyncMethod<Stub, Message, Response> method,
                          Message message) {
  Unary(stub, method, std::move(message), [this](const Response& response) {
    auto answer = FromProto(response);
    if (answer) {
      Finish(std::move(*answer));
    } else {
      Fail(answer.error());
    }
  });
}

void Call::Begin() {
  using Identity = pb::Identity::Stub;
  using Node = pb::Node::Stub;
  Identity* identity = channel_->identity.get();
  Node* node = channel_->node.get();
  const ipc::Arguments& arguments = request_.arguments;
  switch (request_.method) {
    case ipc::Method::kProbe:
      UnaryForAnswer(identity, &Identity::AsyncProbe);
      return;
    case ipc::Method::kGetPluginInfo:
      UnaryForAnswer(identity, &Identity::AsyncGetPluginInfo);
      return;
    case ipc::Method::kGetCapabilities:
      StartCapabilities();
      return;
    case ipc::Method::kNodeGetInfo:
      UnaryForAnswer(node, &Node::AsyncNodeGetInfo);
      return;
    case ipc::Method::kNodeStageVolume:
      UnaryForNothing(node, &Node::AsyncNodeStageVolume,
                      ToProto(std::get<StageRequest>(arguments), secrets_));
      return;
    case ipc::Method::kNodeUnstageVolume:
      UnaryForNothing(node, &Node::AsyncNodeUnstageVolume,
                      ToProto(std::get<ipc::UnstageRequest>(arguments)));
      return;
    case ipc::Method::kNodePublishVolume:
      UnaryForNothing(node, &Node::AsyncNodePublishVolume,
                      ToProto(std::get<PublishRequest>(arguments), secrets_));
      return;
    case ipc::Method::kNodeUnpublishVolume:
      UnaryForNothing(node, &Node::AsyncNodeUnpublishVolume,
                      ToProto(std::get<ipc::UnpublishRequest>(arguments)));
      return;
    case ipc::Method::kNodeExpandVolume:
      UnaryForAnswer(node, &Node::AsyncNodeExpandVolume,
                     ToProto(std::get<ExpandRequest>(arguments), secrets_));
      return;
    case ipc::Method::kNodeGetVolumeStats:
      UnaryForAnswer(node, &Node::AsyncNodeGetVolumeStats,
                     ToProto(std::get<ipc::StatsRequest>(arguments)));
      return;
    case ipc::Method::kNodeGetVolumeHealth:
      UnaryForAnswer(node, &Node::AsyncNodeGetVolumeHealth,
                     ToHealthRequest(std::get<ipc::StatsRequest>(arguments)));
      return;
    case ipc::Method::kCallController:
      StartController();
      return;
    case ipc::Method::kOpen:
    case ipc::Method::kClose:
      break;
  }
  Fail({RpcCode::kUnimplemented, "mountd-csi does not know this call"});
}

void Call::StartCapabilities() {
  const auto then = [this](const pb::GetPluginCapabilitiesResponse& response) {
    RpcResult<std::vector<int>> services = FromProto(response);
    if (!services) {
      Fail(services.error());
      return;
    }
    capabilities_.services = std::move(*services);
    const std::vector<int>& all = capabilities_.services;
    if (std::find(all.begin(), all.end(),
                  pb::PluginCapability::Service::CONTROLLER_SERVICE) !=
        all.end()) {
      StartControllerCapabilities();
    } else {
      StartNodeCapabilities();
    }
  };
  Unary(channel_->identity.get(),
        &pb::Identity::Stub::AsyncGetPluginCapabilities,
        pb::GetPluginCapabilitiesRequest(), then);
}

void Call::StartControllerCapabilities() {
  const auto then =
      [this](const pb::ControllerGetCapabilitiesResponse& response) {
        RpcResult<std::vector<int>> rpcs = FromProto(response);
        if (!rpcs) {
          Fail(rpcs.error());
          return;
        }
        capabilities_.controller_rpcs = std::move(*rpcs);
        StartNodeCapabilities();
      };
  Unary(channel_->controller.get(),
        &pb::Controller::Stub::AsyncControllerGetCapabilities,
        pb::ControllerGetCapabilitiesRequest(), then);
}

// A plugin with only a controller has no Node service, and only UNIMPLEMENTED
// shows that.
void Call::StartNodeCapabilities() {
  const auto then = [this](const pb::NodeGetCapabilitiesResponse& response) {
    RpcResult<std::vector<int>> rpcs = FromProto(response);
    if (!rpcs) {
      Fail(rpcs.error());
      return;
    }
    capabilities_.node_rpcs = std::move(*rpcs);
    Finish(std::move(capabilities_));
  };
  Unary(channel_->node.get(), &pb::Node::Stub::AsyncNodeGetCapabilities,
        pb::NodeGetCapabilitiesRequest(), then,
        /*unimplemented_is_empty=*/true);
}

namespace {

// Does the same as Rpc, for a message whose type only the table of RPCs knows.
struct AnyRpc {
  explicit AnyRpc(ControllerMessage made) : request(std::move(made)) {}

  grpc::ClientContext context;
  ControllerMessage request;
  std::unique_ptr<google::protobuf::Message> response;
  std::unique_ptr<
      grpc::ClientAsyncResponseReader<google::protobuf::MessageLite>>
      reader;
  grpc::Status status;
};

}  // namespace

void Call::StartController() {
  const auto& call = std::get<ControllerCall>(request_.arguments);
  RpcResult<ControllerMessage> request = BuildController(call, secrets_);
  if (!request) {
    Fail(request.error());
    return;
  }
  mount_flags_ = request->MountFlags();
  auto rpc = std::make_shared<AnyRpc>(std::move(*request));
  rpc->response = rpc->request.NewResponse();
  if (!Prepare(std::shared_ptr<grpc::ClientContext>(rpc, &rpc->context))) {
    return;
  }
  rpc->reader =
      channel_->any->PrepareUnaryCall(&rpc->context, rpc->request.path(),
                                      rpc->request.message(), queue_->queue());
  rpc->reader->StartCall();
  auto done = [self = shared_from_this(), rpc](bool read) {
    self->context_.reset();
    if (!rpc->status.ok()) {
      self->FailWith(rpc->status);
      return;
    }
    if (!read) {
      self->Fail(Unreadable());
      return;
    }
    const auto& made = std::get<ControllerCall>(self->request_.arguments);
    RpcResult<std::string> response =
        ReadController(made.form, self->Hidden(), rpc->response.get());
    if (response) {
      self->Finish(ipc::ControllerAnswer{std::move(*response)});
    } else {
      self->Fail(response.error());
    }
  };
  rpc->reader->Finish(rpc->response.get(), &rpc->status,
                      queue_->Tag(std::move(done)));
}

void Call::Finish(ipc::Answer answer) {
  ipc::Reply reply;
  reply.id = request_.id;
  reply.answer = std::move(answer);
  done_(std::move(reply));
}

// True if gRPC has refused an answer for its size. The code alone would mean
// that the plugin ran out of something and did nothing.
bool IsTooLarge(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
         status.error_message().rfind("Received message larger", 0) == 0;
}

void Call::FailWith(const grpc::Status& status) {
  if (IsTooLarge(status)) {
    Fail(Unreadable());
    return;
  }
  const int number = static_cast<int>(status.error_code());
  const bool known = number > static_cast<int>(RpcCode::kOk) &&
                     number <= static_cast<int>(RpcCode::kUnauthenticated);
  Fail({known ? static_cast<RpcCode>(number) : RpcCode::kUnknown,
        status.error_message()});
}

std::vector<std::string_view> Call::Hidden() const {
  return HiddenTexts(secrets_, mount_flags_);
}

void Call::Fail(const RpcError& error) {
  ipc::Reply reply;
  reply.id = request_.id;
  reply.code = error.code;
  reply.message = Scrub(error.message, Hidden());
  done_(std::move(reply));
}

}  // namespace mountd::csi
