// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-csi-proxy/plugin_server.h"

#include <grpc/support/time.h>
#include <grpcpp/resource_quota.h>
#include <sys/stat.h>

#include "mountd/base/names.h"
#include "mountd/base/unix_endpoint.h"

namespace mountd::csi_proxy {
namespace {

// A request of CSI has a few maps of 4 KiB.
constexpr int kMostBytes = 1 << 20;
// Threads of one plugin's RPCs. gRPC refuses an RPC beyond them with
// RESOURCE_EXHAUSTED.
constexpr int kMostThreads = 64;

}  // namespace

Result<PluginAddress> ParseAddress(const std::string& text,
                                   const std::string& endpoint) {
  const std::size_t equals = text.find('=');
  PluginAddress address;
  address.plugin = text.substr(0, equals);
  MOUNTD_TRY(Name::Parse("plugin", address.plugin));
  const bool alone = equals == std::string::npos;
  if (alone && endpoint.empty()) {
    return MakeError(Code::kInvalidArgument, "read", "--plugin " + text,
                     "has no socket, and CSI_ENDPOINT is not set");
  }
  MOUNTD_ASSIGN(address.socket,
                EndpointPath(alone ? endpoint : text.substr(equals + 1)));
  return address;
}

Result<std::unique_ptr<PluginServer>> PluginServer::Start(
    const PluginAddress& address, Calls& calls) {
  MOUNTD_TRY(RemoveStaleSocket(address.socket));
  std::unique_ptr<PluginServer> made(new PluginServer(address, calls));
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + address.socket,
                           grpc::InsecureServerCredentials());
  builder.SetMaxReceiveMessageSize(kMostBytes);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
  builder.SetResourceQuota(
      grpc::ResourceQuota(address.plugin).SetMaxThreads(kMostThreads));
  builder.RegisterService(&made->identity_);
  builder.RegisterService(&made->controller_);
  builder.RegisterService(&made->group_);
  builder.RegisterService(&made->node_);
  // umask sets the mode before the socket exists.
  const mode_t old_mask = ::umask(0177);
  made->server_ = builder.BuildAndStart();
  ::umask(old_mask);
  if (made->server_ == nullptr) {
    return MakeError(Code::kUnavailable, "listen", address.socket,
                     "gRPC cannot listen there");
  }
  return made;
}

PluginServer::~PluginServer() {
  if (server_ != nullptr) {
    server_->Shutdown(gpr_now(GPR_CLOCK_MONOTONIC));
    server_->Wait();
  }
}

}  // namespace mountd::csi_proxy
