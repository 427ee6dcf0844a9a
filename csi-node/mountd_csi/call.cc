// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/mountd_csi/call.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "csi-node/mountd_csi/convert.h"
#include "csi-node/mountd_csi/scrub.h"

namespace mountd::csi {
namespace {

std::int64_t RemainingMs(std::int64_t deadline_ms) {
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      Clock::now().time_since_epoch());
  return deadline_ms - now.count();
}

const std::vector<std::string>& MountFlags(const ipc::Arguments& arguments) {
  static const std::vector<std::string> none;
  if (const auto* stage = std::get_if<StageRequest>(&arguments)) {
    return stage->capability.mount_flags;
  }
  if (const auto* publish = std::get_if<PublishRequest>(&arguments)) {
    return publish->capability.mount_flags;
  }
  if (const auto* expand = std::get_if<ExpandRequest>(&arguments)) {
    return expand->capability.mount_flags;
  }
  return none;
}

template <typename Message>
void WipeMessage(Message* message) {
  if constexpr (requires { message->mutable_secrets(); }) {
    WipeSecrets(message->mutable_secrets());
  }
}

// What gRPC wants to outlive the RPC.
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

std::shared_ptr<Call> Call::Start(std::shared_ptr<PluginChannel> channel,
                                  ipc::Request request, Secrets secrets,
                                  RpcQueue* queue, Done done) {
  std::shared_ptr<Call> call(new Call);
  call->channel_ = std::move(channel);
  call->request_ = std::move(request);
  call->secrets_ = std::move(secrets);
  call->queue_ = queue;
  call->done_ = std::move(done);
  queue->poster()->Post([call] { call->Begin(); });
  return call;
}

void Call::Cancel() {
  cancelled_ = true;
  if (context_ != nullptr) {
    context_->TryCancel();
  }
}

template <typename Stub, typename Message, typename Response, typename Then>
void Call::Unary(Stub* stub, AsyncMethod<Stub, Message, Response> method,
                 Message message, Then then, bool unimplemented_is_empty) {
  const std::int64_t remaining = RemainingMs(request_.deadline_ms);
  if (cancelled_ || remaining <= 0) {
    // Nothing has been sent, but an earlier try of the caller's may have been.
    Fail({cancelled_ ? RpcCode::kCancelled : RpcCode::kDeadlineExceeded,
          cancelled_ ? "cancelled" : "the deadline had passed"});
    return;
  }
  auto rpc = std::make_shared<Rpc<Message, Response>>();
  rpc->message = std::move(message);
  rpc->context.set_deadline(
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                   gpr_time_from_millis(remaining, GPR_TIMESPAN)));
  context_ = std::shared_ptr<grpc::ClientContext>(rpc, &rpc->context);
  rpc->reader = (stub->*method)(&rpc->context, rpc->message, queue_->queue());
  auto done = [self = shared_from_this(), rpc, then = std::move(then),
               unimplemented_is_empty] {
    self->context_.reset();
    if (rpc->status.ok()) {
      then(rpc->response);
    } else if (unimplemented_is_empty &&
               rpc->status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
      then(Response());
    } else {
      self->FailWith(rpc->status);
    }
  };
  rpc->reader->Finish(&rpc->response, &rpc->status,
                      RpcQueue::Tag(std::move(done)));
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
    case ipc::Method::kOpen:
    case ipc::Method::kClose:
      break;
  }
  Fail({RpcCode::kUnimplemented, "not a call to a plugin"});
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

// A controller-only plugin has no Node service and does not say so elsewhere.
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

void Call::Finish(ipc::Answer answer) {
  ipc::Reply reply;
  reply.id = request_.id;
  reply.answer = std::move(answer);
  done_(std::move(reply));
}

void Call::FailWith(const grpc::Status& status) {
  const int number = static_cast<int>(status.error_code());
  const bool known = number > static_cast<int>(RpcCode::kOk) &&
                     number <= static_cast<int>(RpcCode::kUnauthenticated);
  Fail({known ? static_cast<RpcCode>(number) : RpcCode::kUnknown,
        status.error_message()});
}

void Call::Fail(const RpcError& error) {
  ipc::Reply reply;
  reply.id = request_.id;
  reply.code = error.code;
  reply.message = Scrub(error.message,
                        HiddenTexts(secrets_, MountFlags(request_.arguments)));
  done_(std::move(reply));
}

}  // namespace mountd::csi
