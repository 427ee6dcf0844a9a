// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "agent/nomad/goplugin/host_offer.h"
#include "agent/nomad/goplugin/host_services.h"
#include "agent/nomad/goplugin/socket_place.h"
#include "agent/nomad/goplugin/stop_request.h"
#include "mountd/base/result.h"

namespace mountd::goplugin {

// Serves a plugin's services on a socket of its own, together with the services
// that every host expects and the health of "plugin". If the offer has a client
// certificate, only that client can call, by TLS.
class PluginServer {
 public:
  // `version` is that of the application's protocol. The services and `stop`
  // outlive the server.
  static Result<std::unique_ptr<PluginServer>> Start(
      const HostOffer& offer, int version,
      const std::vector<grpc::Service*>& services, const StopRequest& stop);
  // Ends calls that are under way, and waits for their handlers.
  ~PluginServer();
  PluginServer(const PluginServer&) = delete;
  PluginServer& operator=(const PluginServer&) = delete;

  const std::string& socket() const { return place_.socket(); }
  // The line for the host.
  const std::string& handshake() const { return handshake_; }

  // Removes the socket, for a process that ends without the destructor.
  void RemoveSocket() { place_.Remove(); }

 private:
  PluginServer(SocketPlace place, const StopRequest& stop)
      : place_(std::move(place)), controller_(stop) {}

  SocketPlace place_;
  ControllerService controller_;
  BrokerService broker_;
  StdioService stdio_;
  std::string handshake_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace mountd::goplugin
