// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "agent/mountd-csi-proxy/controller_service.h"
#include "agent/mountd-csi-proxy/group_service.h"
#include "agent/mountd-csi-proxy/identity_service.h"
#include "agent/mountd-csi-proxy/node_service.h"
#include "agent/mountd-csi-proxy/proxied_plugin.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::csi_proxy {

// A plugin of mountd's, and the socket on which the proxy stands for it.
struct PluginAddress {
  std::string plugin;
  std::string socket;  // a path
};

// Reads "NAME=SOCKET", or "NAME" with the socket of `endpoint` (CSI_ENDPOINT).
// The socket is a path or "unix://PATH". InvalidArgument for a name that no
// plugin can have, or a socket that is none.
Result<PluginAddress> ParseAddress(const std::string& text,
                                   const std::string& endpoint);

// Serves CSI for one plugin on a socket of its own that only this user can
// connect to.
class PluginServer {
 public:
  // AlreadyExists if somebody listens there, or another proxy starts to. Keeps
  // a lock in "<socket>.lock". `calls` outlives the server.
  static Result<std::unique_ptr<PluginServer>> Start(
      const PluginAddress& address, Calls& calls);
  // Ends RPCs that are under way. mountd goes on with its work for them.
  ~PluginServer();
  PluginServer(const PluginServer&) = delete;
  PluginServer& operator=(const PluginServer&) = delete;

 private:
  PluginServer(const PluginAddress& address, Calls& calls)
      : plugin_(address.plugin, calls) {}

  UniqueFd lock_;
  ProxiedPlugin plugin_;
  IdentityService identity_{plugin_};
  ControllerService controller_{plugin_};
  GroupService group_{plugin_};
  NodeService node_{plugin_};
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace mountd::csi_proxy
