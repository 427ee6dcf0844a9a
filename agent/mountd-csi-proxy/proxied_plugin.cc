// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-csi-proxy/proxied_plugin.h"

#include <cstdio>

#include "mountd/base/one_line.h"

namespace mountd::csi_proxy {

Result<agent::PluginStatus> ProxiedPlugin::Status(const RpcTime& time) {
  auto status = calls_.Look(
      time, [&](agent::Client& client) { return client.GetPlugin(name_); });
  if (!status && status.error().code == Code::kNotFound) {
    return MakeError(Code::kFailedPrecondition, "GetPlugin", name_,
                     "mountd knows no such plugin; declare it in mountd.toml "
                     "or register it");
  }
  return status;
}

ProxiedPlugin::Outcome ProxiedPlugin::KnownPlugin(Outcome outcome,
                                                  const RpcTime& time) {
  if (!outcome && outcome.error().code == Code::kNotFound) {
    if (const auto status = Status(time); !status) {
      return status.error();
    }
  }
  return outcome;
}

grpc::Status ProxiedPlugin::InTime(const RpcTime& time, const char* rpc,
                                   const Outcome& outcome) const {
  grpc::Status status = Finish(rpc, outcome);
  return !outcome && outcome.error().code == Code::kInProgress &&
                 time.IsPastDeadline()
             ? grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED,
                            status.error_message())
             : status;
}

grpc::Status ProxiedPlugin::Finish(const char* rpc,
                                   const Outcome& outcome) const {
  if (!outcome) {
    const std::string line = name_ + ": " + rpc + ": " +
                             std::string(CodeName(outcome.error().code)) +
                             ": " + outcome.error().Message();
    std::fprintf(stderr, "mountd-csi-proxy: %s\n", OnOneLine(line).c_str());
  }
  return ToStatus(outcome);
}

}  // namespace mountd::csi_proxy
