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
  static const std::vector<std::string> kNone;
  if (const auto* stage = std::get_if<StageRequest>(&arguments)) {
    return stage->capability.mount_flags;
  }
  if (const auto* publish = std::get_if<PublishRequest>(&arguments)) {
    return publish->capability.mount_flags;
  }
  return kNone;
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
  Response response;
};

}  // namespace

std::shared_ptr<Call> Call::Start(std::shared_ptr<PluginChannel> channel,
                                  ipc::Request request, Secrets secrets,
                                  std::shared_ptr<Poster> poster, Done done) {
  std::shared_ptr<Call> call(new Call);
  call->channel_ = std::move(channel);
  call->request_ = std::move(request);
  call->secrets_ = std::move(secrets);
  call->poster_ = std::move(poster);
  call->done_ = std::move(done);
  call->poster_->Post([call] { call->Begin(); });
  return call;
}

void Call::Cancel() {
  cancelled_ = true;
  if (context_ != nullptr) {
    context_->TryCancel();
  }
}

template <typename Async, typename Method, typename Message, typename Response>
void Call::Unary(Async* async, Method method, Message message,
                 std::function<void(const Response&)> then,
                 bool unimplemented_is_empty) {
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
  auto self = shared_from_this();
  (async->*method)(
      &rpc->context, &rpc->message, &rpc->response,
      [self, rpc, then = std::move(then),
       unimplemented_is_empty](const grpc::Status& status) {
        self->poster_->Post([self, rpc, then, unimplemented_is_empty, status] {
          self->context_.reset();
          if (status.ok()) {
            then(rpc->response);
          } else if (unimplemented_is_empty &&
                     status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
            then(Response());
          } else {
            self->FailWith(status);
          }
        });
      });
}

template <typename Response, typename Async, typename Method, typename Message>
void Call::UnaryForNothing(Async* async, Method method, Message message) {
  Unary<Async, Method, Message, Response>(
      async, method, std::move(message),
      [this](const Response& /*empty*/) { Finish({}); });
}

#define MOUNTD_CSI_METHOD(service, rpc)                                  \
  static_cast<void (pb::service::Stub::async::*)(                        \
      grpc::ClientContext*, const pb::rpc##Request*, pb::rpc##Response*, \
      std::function<void(grpc::Status)>)>(&pb::service::Stub::async::rpc)

void Call::Begin() {
  auto* identity = channel_->identity->async();
  auto* node = channel_->node->async();
  switch (request_.method) {
    case ipc::Method::kProbe: {
      // An absent `ready` means ready.
      std::function<void(const pb::ProbeResponse&)> then =
          [this](const pb::ProbeResponse& response) {
            Finish(ipc::ProbeResult{!response.has_ready() ||
                                    response.ready().value()});
          };
      Unary(identity, MOUNTD_CSI_METHOD(Identity, Probe), pb::ProbeRequest(),
            std::move(then));
      return;
    }
    case ipc::Method::kGetPluginInfo: {
      std::function<void(const pb::GetPluginInfoResponse&)> then =
          [this](const pb::GetPluginInfoResponse& response) {
            RpcResult<PluginInfo> info = FromProto(response);
            info ? Finish(std::move(*info)) : Fail(info.error());
          };
      Unary(identity, MOUNTD_CSI_METHOD(Identity, GetPluginInfo),
            pb::GetPluginInfoRequest(), std::move(then));
      return;
    }
    case ipc::Method::kGetCapabilities:
      StartCapabilities();
      return;
    case ipc::Method::kNodeGetInfo: {
      std::function<void(const pb::NodeGetInfoResponse&)> then =
          [this](const pb::NodeGetInfoResponse& response) {
            RpcResult<NodeInfo> info = FromProto(response);
            info ? Finish(std::move(*info)) : Fail(info.error());
          };
      Unary(node, MOUNTD_CSI_METHOD(Node, NodeGetInfo),
            pb::NodeGetInfoRequest(), std::move(then));
      return;
    }
    case ipc::Method::kNodeStageVolume:
      UnaryForNothing<pb::NodeStageVolumeResponse>(
          node, MOUNTD_CSI_METHOD(Node, NodeStageVolume),
          ToProto(std::get<StageRequest>(request_.arguments), secrets_));
      return;
    case ipc::Method::kNodeUnstageVolume:
      UnaryForNothing<pb::NodeUnstageVolumeResponse>(
          node, MOUNTD_CSI_METHOD(Node, NodeUnstageVolume),
          ToProto(std::get<ipc::UnstageRequest>(request_.arguments)));
      return;
    case ipc::Method::kNodePublishVolume:
      UnaryForNothing<pb::NodePublishVolumeResponse>(
          node, MOUNTD_CSI_METHOD(Node, NodePublishVolume),
          ToProto(std::get<PublishRequest>(request_.arguments), secrets_));
      return;
    case ipc::Method::kNodeUnpublishVolume:
      UnaryForNothing<pb::NodeUnpublishVolumeResponse>(
          node, MOUNTD_CSI_METHOD(Node, NodeUnpublishVolume),
          ToProto(std::get<ipc::UnpublishRequest>(request_.arguments)));
      return;
    case ipc::Method::kOpen:
    case ipc::Method::kClose:
      break;
  }
  Fail({RpcCode::kUnimplemented, "not a call to a plugin"});
}

void Call::StartCapabilities() {
  std::function<void(const pb::GetPluginCapabilitiesResponse&)> then =
      [this](const pb::GetPluginCapabilitiesResponse& response) {
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
  Unary(channel_->identity->async(),
        MOUNTD_CSI_METHOD(Identity, GetPluginCapabilities),
        pb::GetPluginCapabilitiesRequest(), std::move(then));
}

void Call::StartControllerCapabilities() {
  std::function<void(const pb::ControllerGetCapabilitiesResponse&)> then =
      [this](const pb::ControllerGetCapabilitiesResponse& response) {
        RpcResult<std::vector<int>> rpcs = FromProto(response);
        if (!rpcs) {
          Fail(rpcs.error());
          return;
        }
        capabilities_.controller_rpcs = std::move(*rpcs);
        StartNodeCapabilities();
      };
  Unary(channel_->controller->async(),
        MOUNTD_CSI_METHOD(Controller, ControllerGetCapabilities),
        pb::ControllerGetCapabilitiesRequest(), std::move(then));
}

// A controller-only plugin has no Node service and does not say so elsewhere.
void Call::StartNodeCapabilities() {
  std::function<void(const pb::NodeGetCapabilitiesResponse&)> then =
      [this](const pb::NodeGetCapabilitiesResponse& response) {
        RpcResult<std::vector<int>> rpcs = FromProto(response);
        if (!rpcs) {
          Fail(rpcs.error());
          return;
        }
        capabilities_.node_rpcs = std::move(*rpcs);
        Finish(std::move(capabilities_));
      };
  Unary(channel_->node->async(), MOUNTD_CSI_METHOD(Node, NodeGetCapabilities),
        pb::NodeGetCapabilitiesRequest(), std::move(then),
        /*unimplemented_is_empty=*/true);
}

#undef MOUNTD_CSI_METHOD

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
