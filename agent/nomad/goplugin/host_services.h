// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <goplugin.grpc.pb.h>

#include "agent/nomad/goplugin/stop_request.h"

// The services that every host of go-plugin expects. No call occupies a thread.
namespace mountd::goplugin {

// Sets the StopRequest once the answer to the host is on its way.
class ControllerService final : public plugin::GRPCController::CallbackService {
 public:
  explicit ControllerService(const StopRequest& stop) : stop_(stop) {}

  grpc::ServerUnaryReactor* Shutdown(grpc::CallbackServerContext* context,
                                     const plugin::Empty* request,
                                     plugin::Empty* response) override;

 private:
  const StopRequest& stop_;
};

// Drops the host's messages until the host ends the stream, because the plugin
// needs no other connection.
class BrokerService final : public plugin::GRPCBroker::CallbackService {
 public:
  grpc::ServerBidiReactor<plugin::ConnInfo, plugin::ConnInfo>* StartStream(
      grpc::CallbackServerContext* context) override;
};

// Sends nothing until the host ends the stream, because the plugin prints
// nothing to stdout after the handshake.
class StdioService final : public plugin::GRPCStdio::CallbackService {
 public:
  grpc::ServerWriteReactor<plugin::StdioData>* StreamStdio(
      grpc::CallbackServerContext* context,
      const google::protobuf::Empty* request) override;
};

}  // namespace mountd::goplugin
