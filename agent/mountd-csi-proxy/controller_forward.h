// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <grpcpp/server_context.h>

#include <string>

#include "agent/mountd-csi-proxy/proxied_plugin.h"

namespace mountd::csi_proxy {

// True for a request that has secrets.
template <typename Request>
concept HasSecrets = requires(Request request) {
  request.mutable_secrets();
};

// Returns the request as mountd's CallController takes it: without its secrets,
// and without fields that this release of CSI does not have.
template <typename Request>
std::string WithoutSecrets(const Request& request) {
  Request plain = request;
  if constexpr (HasSecrets<Request>) {
    Secrets::Wipe(*plain.mutable_secrets());
    plain.clear_secrets();
  }
  plain.DiscardUnknownFields();
  return plain.SerializeAsString();
}

// Answers an RPC by CallController. `rpc` is its name in CSI.
template <typename Request, typename Response>
grpc::Status Forward(ProxiedPlugin& plugin, const char* rpc,
                     const grpc::ServerContext& context, const Request& request,
                     Response* response) {
  return plugin.Answer(
      rpc, context, request,
      [&](agent::Client& client, const RpcTime& /*time*/) -> Result<void> {
        agent::ControllerCall call;
        call.plugin = plugin.name();
        call.rpc = rpc;
        call.request = WithoutSecrets(request);
        ProtoMap none;
        const ProtoMap* secrets = &none;
        if constexpr (HasSecrets<Request>) {
          secrets = &request.secrets();
        }
        const LentSecrets lent(*secrets, call.secrets);
        MOUNTD_ASSIGN(const std::string answer, client.CallController(call));
        return response->ParseFromString(answer)
                   ? Ok()
                   : Result<void>(MakeError(Code::kInternal, rpc, call.plugin,
                                            "mountd's answer is no response"));
      });
}

}  // namespace mountd::csi_proxy
