// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.pb.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "csi-node/types/csi_client.h"
#include "csi-node/types/secrets.h"

// Makes the RPCs of the Controller and GroupController services by name. mountd
// passes on messages that it does not read, as protobuf's JSON or bytes.
namespace mountd::csi {

struct ControllerRpc;  // a row of the table of RPCs

// A request that is ready to be sent, with its secrets. The destructor
// overwrites the secrets.
class ControllerMessage {
 public:
  ControllerMessage(const ControllerRpc& rpc,
                    std::unique_ptr<google::protobuf::Message> message)
      : rpc_(&rpc), message_(std::move(message)) {}
  ~ControllerMessage();
  ControllerMessage(ControllerMessage&&) = default;
  ControllerMessage& operator=(ControllerMessage&&) = delete;

  // Returns "/csi.v1.Controller/CreateVolume".
  std::string path() const;
  const google::protobuf::Message& message() const { return *message_; }
  std::unique_ptr<google::protobuf::Message> NewResponse() const;
  // Returns the mount flags of all capabilities in the request.
  std::vector<std::string> MountFlags() const;

 private:
  const ControllerRpc* rpc_;
  std::unique_ptr<google::protobuf::Message> message_;
};

RpcResult<ControllerMessage> BuildController(const ControllerCall& call,
                                             const Secrets& secrets);

// Returns the response in the request's form. Scrubs its "message" fields as an
// error's text. kDataLoss if the response exceeds the bounds of
// message_bounds.h.
RpcResult<std::string> ReadController(
    ControllerCall::Form form, const std::vector<std::string_view>& hidden,
    google::protobuf::Message* response);

}  // namespace mountd::csi
