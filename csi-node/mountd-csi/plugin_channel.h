// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.grpc.pb.h>
#include <grpcpp/generic/generic_stub.h>

#include <memory>

#include "csi-node/types/csi_client.h"
#include "mountd/base/unique_fd.h"

namespace mountd::csi {

// gRPC over one connected plugin socket. Lives as long as the connection and
// never reconnects. Do not use gRPC's connectivity API on it, because that
// aborts the process on a channel made from an fd (gRPC 1.51).
struct PluginChannel {
  using AnyStub = grpc::TemplatedGenericStub<google::protobuf::MessageLite,
                                             google::protobuf::MessageLite>;

  std::unique_ptr<::csi::v1::Identity::Stub> identity;
  std::unique_ptr<::csi::v1::Controller::Stub> controller;
  std::unique_ptr<::csi::v1::Node::Stub> node;
  std::unique_ptr<AnyStub> any;  // for RPCs by name
};

// kInvalidArgument unless `socket` is a connected unix stream socket.
RpcResult<std::shared_ptr<PluginChannel>> MakePluginChannel(UniqueFd socket);

}  // namespace mountd::csi
