// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/mountd-csi/plugin_channel.h"

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <sys/socket.h>

#include "csi-node/mountd-csi/plugin_reads.h"

namespace mountd::csi {
namespace {

// gRPC's default.
constexpr int kMaxReceive = 4 * 1024 * 1024;
// Bounds gRPC's memory for one plugin, so that no plugin takes the others'.
constexpr std::size_t kMaxBuffered = std::size_t{32} << 20U;

int Option(int fd, int name) {
  int value = -1;
  socklen_t size = sizeof(value);
  return ::getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}

bool IsConnectedUnixStream(int fd) {
  sockaddr_storage peer{};
  socklen_t size = sizeof(peer);
  auto* address = static_cast<sockaddr*>(static_cast<void*>(&peer));
  return Option(fd, SO_DOMAIN) == AF_UNIX &&
         Option(fd, SO_TYPE) == SOCK_STREAM && Option(fd, SO_ACCEPTCONN) == 0 &&
         ::getpeername(fd, address, &size) == 0;
}

}  // namespace

RpcResult<std::shared_ptr<PluginChannel>> MakePluginChannel(UniqueFd socket) {
  if (!socket.valid() || !IsConnectedUnixStream(socket.get())) {
    return RpcError{RpcCode::kInvalidArgument,
                    "the plugin's socket is not a connected unix socket"};
  }
  const int flags = ::fcntl(socket.get(), F_GETFL);
  if (flags < 0 || ::fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return RpcError{RpcCode::kInternal, "the plugin's socket cannot be set up"};
  }
  NotePluginSocket(socket.get());
  grpc::ChannelArguments arguments;
  // The authority is fixed, because Go plugins refuse one made from a socket's
  // path.
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  arguments.SetMaxReceiveMessageSize(kMaxReceive);
  grpc::ResourceQuota quota;
  quota.Resize(kMaxBuffered);
  arguments.SetResourceQuota(quota);
  // gRPC closes the descriptor from here on.
  const std::shared_ptr<grpc::Channel> channel =
      grpc::CreateCustomInsecureChannelFromFd("plugin", socket.release(),
                                              arguments);
  auto plugin = std::make_shared<PluginChannel>();
  plugin->identity = ::csi::v1::Identity::NewStub(channel);
  plugin->controller = ::csi::v1::Controller::NewStub(channel);
  plugin->node = ::csi::v1::Node::NewStub(channel);
  plugin->any = std::make_unique<PluginChannel::AnyStub>(channel);
  return plugin;
}

}  // namespace mountd::csi
