// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-csi-proxy/plugin_server.h"

#include <fcntl.h>
#include <grpc/support/time.h>
#include <grpcpp/resource_quota.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "mountd/base/names.h"
#include "mountd/base/unix_endpoint.h"

namespace mountd::csi_proxy {
namespace {

// A request of CSI has a few maps of 4 KiB.
constexpr int kMostBytes = 1 << 20;
// Threads of one plugin's RPCs: of those that may wait, and of those that do
// not. gRPC refuses an RPC beyond them with RESOURCE_EXHAUSTED.
constexpr int kMostThreads = static_cast<int>(ProxiedPlugin::kMostWaiting) + 16;

// Takes a lock that ends with this process. A proxy that starts looks whether
// somebody listens, removes the socket and listens itself; without a lock two
// of them could do so at once. The file stays, because a process that opened
// it before its removal would hold the lock of no file.
Result<UniqueFd> LockSocket(const std::string& socket) {
  const std::string path = socket + ".lock";
  UniqueFd lock(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.valid()) {
    return ErrnoError(errno, "open", path);
  }
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK
               ? MakeError(Code::kAlreadyExists, "listen", socket,
                           "another mountd-csi-proxy serves there")
               : ErrnoError(errno, "flock", path);
  }
  return lock;
}

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
  MOUNTD_ASSIGN(UniqueFd lock, LockSocket(address.socket));
  MOUNTD_TRY(RemoveStaleSocket(address.socket));
  std::unique_ptr<PluginServer> made(new PluginServer(address, calls));
  made->lock_ = std::move(lock);
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
