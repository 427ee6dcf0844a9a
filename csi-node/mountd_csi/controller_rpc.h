// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.pb.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "csi-node/csi_client.h"
#include "csi-node/secrets.h"

// The RPCs of the Controller and GroupController services, by their names: what
// mountd does not look into, it hands on as protobuf's JSON or bytes.
namespace mountd::csi {

struct ControllerRpc;  // a row of the table of RPCs

// A request that is ready to be sent, its secrets in place. They are
// overwritten on destruction.
class ControllerMessage {
 public:
  ControllerMessage(const ControllerRpc& rpc,
                    std::unique_ptr<google::protobuf::Message> message)
      : rpc_(&rpc), message_(std::move(message)) {}
  ~ControllerMessage();
  ControllerMessage(ControllerMessage&&) = default;
  ControllerMessage& operator=(ControllerMessage&&) = delete;

  // "/csi.v1.Controller/CreateVolume"
  std::string path() const;
  const google::protobuf::Message& message() const { return *message_; }
  std::unique_ptr<google::protobuf::Message> NewResponse() const;
  // Of all capabilities in it.
  std::vector<std::string> MountFlags() const;

 private:
  const ControllerRpc* rpc_;
  std::unique_ptr<google::protobuf::Message> message_;
};

RpcResult<ControllerMessage> BuildController(const ControllerCall& call,
                                             const Secrets& secrets);

// The response in the request's form, its "message" fields cleaned as an
// error's text. kDataLoss if it is beyond the bounds of message_bounds.h.
RpcResult<std::string> ReadController(
    ControllerCall::Form form, const std::vector<std::string_view>& hidden,
    google::protobuf::Message* response);

}  // namespace mountd::csi
