// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-cni/mountd_calls.h"

#include <cerrno>
#include <optional>
#include <vector>

#include "agent/mountd-cni/attachment_ids.h"
#include "agent/mountd-cni/attachment_removal.h"

namespace mountd::cni_plugin {

using agent::Client;
using agent::NetworkStatus;

Result<Client> Connect(const Config& config,
                       std::chrono::milliseconds timeout) {
  agent::ClientOptions options;
  options.address = config.address;
  options.connect_timeout = std::min(options.connect_timeout, timeout);
  options.deadline = timeout;
  return Client::Connect(std::move(options));
}

bool IsAway(const Error& error) {
  return error.code == Code::kUnavailable && error.sys_errno != EACCES &&
         error.sys_errno != EPERM;
}

Outcome<NetworkStatus> FindInterface(const Environment& environment,
                                     const Config& config) {
  MOUNTD_ASSIGN(
      const auto status, Told(AwaitMountd(config, [&](Client& client) {
        return FindAllocation(client, AllocationOf(environment.container_id));
      })));
  const std::vector<NetworkStatus> networks =
      status ? status->networks : std::vector<NetworkStatus>();
  const auto own = std::find_if(
      networks.begin(), networks.end(), [&](const NetworkStatus& network) {
        return network.interface == environment.ifname;
      });
  if (own == networks.end()) {
    return Failure{cni::kUnknownContainer, "mountd has no interface " +
                                               environment.ifname +
                                               " for this container"};
  }
  return *own;
}

}  // namespace mountd::cni_plugin
