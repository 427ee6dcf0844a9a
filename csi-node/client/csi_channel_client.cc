// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/client/csi_channel_client.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <utility>
#include <variant>

#include "csi-node/client/csi_session.h"
#include "csi-node/ipc/message.h"
#include "mountd/base/operation_trace.h"
#include "mountd/base/paths.h"
#include "mountd/base/unix_socket.h"

namespace mountd::csi {
namespace {

constexpr std::chrono::seconds kOpenTimeout{5};
constexpr std::chrono::seconds kCloseTimeout{1};

ipc::Request MakeRequest(ipc::Method method, const ChannelRef& ref,
                         ipc::Arguments arguments = {}) {
  ipc::Request request;
  request.method = method;
  request.channel = ref;
  request.arguments = std::move(arguments);
  return request;
}

}  // namespace

CsiChannelClient::CsiChannelClient(Connect connect,
                                   std::function<void()> on_disconnect)
    : connect_(std::move(connect)), on_disconnect_(std::move(on_disconnect)) {}

CsiChannelClient::~CsiChannelClient() = default;

Result<UniqueFd> CsiChannelClient::ConnectToCsiSocket() {
  // Non-blocking, so that a stopped mountd-csi with a full backlog gives EAGAIN
  // and does not hang the caller.
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) {
    return ErrnoError(errno, "socket", "mountd-csi");
  }
  if (const int err = ConnectUnix(fd.get(), paths::kCsiSocket); err != 0) {
    Error error = ErrnoError(err, "connect", "mountd-csi");
    error.code = Code::kUnavailable;
    return error;
  }
  return fd;
}

std::shared_ptr<CsiSession> CsiChannelClient::Current() {
  const std::lock_guard lock(mutex_);
  return session_ != nullptr && !session_->dead() ? session_ : nullptr;
}

RpcResult<std::shared_ptr<CsiSession>> CsiChannelClient::CurrentOrConnect(
    const ChannelRef& ref) {
  const std::lock_guard lock(mutex_);
  if (session_ != nullptr && !session_->dead()) {
    channels_.emplace(ref.plugin, ref.generation);
    return session_;
  }
  channels_.clear();
  if (session_ != nullptr) {
    retired_.push_back(std::move(session_));
    session_ = nullptr;
  }
  ReapRetired();
  Result<UniqueFd> socket = connect_();
  if (!socket) {
    return RpcError{RpcCode::kUnavailable, "mountd cannot reach mountd-csi",
                    true};
  }
  session_ = std::make_shared<CsiSession>(std::move(*socket), on_disconnect_);
  // Counts the channel before its Open, so that closing another channel does
  // not disconnect meanwhile.
  channels_.emplace(ref.plugin, ref.generation);
  return session_;
}

void CsiChannelClient::Forget(const ChannelRef& ref) {
  std::shared_ptr<CsiSession> unused;
  {
    const std::lock_guard lock(mutex_);
    channels_.erase({ref.plugin, ref.generation});
    if (channels_.empty()) {
      unused = std::exchange(session_, nullptr);
    }
  }
  if (unused != nullptr) {
    // Does not hold mutex_, because Stop waits for a thread that may be in
    // on_disconnect.
    unused->Stop();
  }
}

// Removes only sessions that have finished. Waiting here for an on_disconnect
// that waits for this caller would be a deadlock.
void CsiChannelClient::ReapRetired() {
  std::erase_if(retired_, [](const std::shared_ptr<CsiSession>& session) {
    return session->finished();
  });
}

RpcResult<ipc::Reply> CsiChannelClient::Call(ipc::Request request,
                                             const UniqueFd& secrets,
                                             Clock::time_point deadline) {
  const std::shared_ptr<CsiSession> session = Current();
  if (session == nullptr) {
    return RpcError{
        RpcCode::kUnavailable,
        "the channel is gone: mountd is not connected to mountd-csi", true};
  }
  UniqueFd fd;
  if (secrets.valid()) {
    // A duplicate, because the frame closes its fd after sending, and the
    // caller may need the secrets for another try.
    fd.reset(::fcntl(secrets.get(), F_DUPFD_CLOEXEC, 0));
    if (!fd.valid()) {
      // Fails before anything is sent, because the call must not go without its
      // secrets.
      return RpcError{RpcCode::kResourceExhausted,
                      "mountd has no file descriptor left"};
    }
  }
  const OperationTrace* const trace = CurrentTrace::Get();
  const std::string rpc = trace == nullptr ? "" : ipc::RpcName(request);
  if (rpc.empty()) {
    return session->Call(std::move(request), std::move(fd), deadline);
  }
  StepSpan step(rpc, Span::Kind::kClient);
  request.trace = step.parent();
  RpcResult<ipc::Reply> reply =
      session->Call(std::move(request), std::move(fd), deadline);
  if (!reply) {
    step.Failed(ToCode(reply.error().code));
  }
  return reply;
}

RpcResult<void> CsiChannelClient::CallForNothing(ipc::Request request,
                                                 const UniqueFd& secrets,
                                                 Clock::time_point deadline) {
  RpcResult<ipc::Reply> reply = Call(std::move(request), secrets, deadline);
  if (!reply) {
    return reply.error();
  }
  return {};
}

template <typename T>
RpcResult<T> CsiChannelClient::CallFor(ipc::Request request,
                                       const UniqueFd& secrets,
                                       Clock::time_point deadline) {
  RpcResult<ipc::Reply> reply = Call(std::move(request), secrets, deadline);
  if (!reply) {
    return reply.error();
  }
  T* answer = std::get_if<T>(&reply->answer);
  if (answer == nullptr) {
    return RpcError{RpcCode::kUnknown, "mountd-csi's answer is malformed"};
  }
  return std::move(*answer);
}

RpcResult<void> CsiChannelClient::Open(const ChannelRef& ref, UniqueFd socket) {
  RpcResult<std::shared_ptr<CsiSession>> session = CurrentOrConnect(ref);
  if (!session) {
    return session.error();
  }
  RpcResult<ipc::Reply> reply =
      (*session)->Call(MakeRequest(ipc::Method::kOpen, ref), std::move(socket),
                       Clock::now() + kOpenTimeout);
  if (!reply) {
    Forget(ref);
    return reply.error();
  }
  const std::lock_guard lock(mutex_);
  // mountd-csi has closed the plugin's older channels.
  std::erase_if(channels_, [&](const auto& channel) {
    return channel.first == ref.plugin && channel.second < ref.generation;
  });
  return {};
}

void CsiChannelClient::Close(const ChannelRef& ref) {
  // An error means that the channel is closed already.
  IgnoreBecauseBestEffort(Call(MakeRequest(ipc::Method::kClose, ref),
                               UniqueFd(), Clock::now() + kCloseTimeout));
  Forget(ref);
}

RpcResult<bool> CsiChannelClient::Probe(const ChannelRef& ref,
                                        Clock::time_point deadline) {
  const RpcResult<ipc::ProbeResult> result = CallFor<ipc::ProbeResult>(
      MakeRequest(ipc::Method::kProbe, ref), UniqueFd(), deadline);
  if (!result) {
    return result.error();
  }
  return result->ready;
}

RpcResult<PluginInfo> CsiChannelClient::GetPluginInfo(
    const ChannelRef& ref, Clock::time_point deadline) {
  return CallFor<PluginInfo>(MakeRequest(ipc::Method::kGetPluginInfo, ref),
                             UniqueFd(), deadline);
}

RpcResult<PluginCapabilities> CsiChannelClient::GetCapabilities(
    const ChannelRef& ref, Clock::time_point deadline) {
  return CallFor<PluginCapabilities>(
      MakeRequest(ipc::Method::kGetCapabilities, ref), UniqueFd(), deadline);
}

RpcResult<NodeInfo> CsiChannelClient::NodeGetInfo(const ChannelRef& ref,
                                                  Clock::time_point deadline) {
  return CallFor<NodeInfo>(MakeRequest(ipc::Method::kNodeGetInfo, ref),
                           UniqueFd(), deadline);
}

RpcResult<void> CsiChannelClient::NodeStageVolume(const ChannelRef& ref,
                                                  const StageRequest& request,
                                                  const UniqueFd& secrets,
                                                  Clock::time_point deadline) {
  return CallForNothing(
      MakeRequest(ipc::Method::kNodeStageVolume, ref, request), secrets,
      deadline);
}

RpcResult<void> CsiChannelClient::NodeUnstageVolume(
    const ChannelRef& ref, const std::string& volume_id,
    const std::string& staging_target_path, Clock::time_point deadline) {
  return CallForNothing(
      MakeRequest(ipc::Method::kNodeUnstageVolume, ref,
                  ipc::UnstageRequest{volume_id, staging_target_path}),
      UniqueFd(), deadline);
}

RpcResult<void> CsiChannelClient::NodePublishVolume(
    const ChannelRef& ref, const PublishRequest& request,
    const UniqueFd& secrets, Clock::time_point deadline) {
  return CallForNothing(
      MakeRequest(ipc::Method::kNodePublishVolume, ref, request), secrets,
      deadline);
}

RpcResult<void> CsiChannelClient::NodeUnpublishVolume(
    const ChannelRef& ref, const std::string& volume_id,
    const std::string& target_path, Clock::time_point deadline) {
  return CallForNothing(
      MakeRequest(ipc::Method::kNodeUnpublishVolume, ref,
                  ipc::UnpublishRequest{volume_id, target_path}),
      UniqueFd(), deadline);
}

RpcResult<std::int64_t> CsiChannelClient::NodeExpandVolume(
    const ChannelRef& ref, const ExpandRequest& request,
    const UniqueFd& secrets, Clock::time_point deadline) {
  const RpcResult<ipc::ExpandResult> result = CallFor<ipc::ExpandResult>(
      MakeRequest(ipc::Method::kNodeExpandVolume, ref, request), secrets,
      deadline);
  if (!result) {
    return result.error();
  }
  return result->capacity_bytes;
}

RpcResult<VolumeStats> CsiChannelClient::NodeGetVolumeStats(
    const ChannelRef& ref, const std::string& volume_id,
    const std::string& volume_path, const std::string& staging_target_path,
    Clock::time_point deadline) {
  return CallFor<VolumeStats>(
      MakeRequest(
          ipc::Method::kNodeGetVolumeStats, ref,
          ipc::StatsRequest{volume_id, volume_path, staging_target_path}),
      UniqueFd(), deadline);
}

RpcResult<VolumeCondition> CsiChannelClient::NodeGetVolumeHealth(
    const ChannelRef& ref, const std::string& volume_id,
    const std::string& volume_publish_path,
    const std::string& staging_target_path, Clock::time_point deadline) {
  RpcResult<VolumeStats> stats = CallFor<VolumeStats>(
      MakeRequest(ipc::Method::kNodeGetVolumeHealth, ref,
                  ipc::StatsRequest{volume_id, volume_publish_path,
                                    staging_target_path}),
      UniqueFd(), deadline);
  if (!stats) {
    return std::move(stats).error();
  }
  return std::move(stats->condition).value_or(VolumeCondition());
}

RpcResult<std::string> CsiChannelClient::CallController(
    const ChannelRef& ref, const ControllerCall& call, const UniqueFd& secrets,
    Clock::time_point deadline) {
  if (call.request.size() > ipc::kMaxControllerRequest) {
    return RpcError{RpcCode::kInvalidArgument,
                    "the request is too large for mountd-csi"};
  }
  RpcResult<ipc::ControllerAnswer> result = CallFor<ipc::ControllerAnswer>(
      MakeRequest(ipc::Method::kCallController, ref, call), secrets, deadline);
  if (!result) {
    return result.error();
  }
  return std::move(result->response);
}

}  // namespace mountd::csi
