// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-cni/port_verbs.h"

#include <algorithm>

#include "agent/client.h"
#include "agent/mountd-cni/abandoned.h"
#include "agent/mountd-cni/attachment_ids.h"
#include "agent/mountd-cni/links.h"
#include "agent/mountd-cni/mountd_calls.h"
#include "agent/mountd-cni/result.h"
#include "agent/mountd-cni/values.h"

namespace mountd::cni_plugin {
namespace {

using agent::Client;
using agent::NetworkStatus;
using agent::Port;

bool IsOptional(const Port& port) { return port.protocols.ends_with('?'); }

bool IsMapped(const Port& asked, const NetworkStatus& status) {
  return std::any_of(
      status.ports.begin(), status.ports.end(), [&](const Port& port) {
        return port.label == asked.label && port.host == asked.host &&
               port.container == asked.container && !port.protocols.empty();
      });
}

std::string TextOf(const Port& port) {
  return std::to_string(port.host) + "/" + port.protocols;
}

Result<NetworkStatus> Map(Client& client, const Environment& environment,
                          const std::vector<Port>& ports) {
  return client.UpdatePorts(AllocationOf(environment.container_id), ports,
                            environment.ifname);
}

Result<NetworkStatus> MapOrMakeRoom(Client& client,
                                    const Environment& environment,
                                    const Config& config, const Netns& netns) {
  const std::vector<Port>& ports = config.runtime.ports;
  Result<NetworkStatus> status = Map(client, environment, ports);
  if (status) {
    return status;
  }
  // FailedPrecondition: others have changed the interface. mountd then repairs
  // the interface, so the second call can map the ports.
  if (status.error().code == Code::kFailedPrecondition) {
    return Map(client, environment, ports);
  }
  if (status.error().code == Code::kAlreadyExists) {
    const Result<bool> made =
        MakeRoom(client, environment, config, netns, Own::kKeep);
    if (made && *made) {
      return Map(client, environment, ports);
    }
  }
  return status;
}

// True for the errors after which the DEL of the interface still removes the
// ports: mountd has no such interface, does not change it, or grants it no
// longer.
bool IsForTheNextDel(Code code) {
  return code == Code::kNotFound || code == Code::kFailedPrecondition ||
         code == Code::kPermissionDenied || code == Code::kNotSupported;
}

}  // namespace

std::string UnmappedPorts(const std::vector<Port>& asked,
                          const NetworkStatus& status) {
  std::string lines;
  for (const Port& port : asked) {
    if (IsOptional(port) && !IsMapped(port, status)) {
      lines += "mountd-cni: host port " + std::to_string(port.host) +
               "/udp is not mapped, because it is not free\n";
    }
  }
  return lines;
}

Outcome<Added> AddPorts(const Environment& environment, const Config& config) {
  if (config.prev_result.is_null()) {
    return BadConfig("prevResult",
                     "is required, because portmap comes after the plugin that "
                     "makes the interface");
  }
  if (config.runtime.ports.empty()) {
    return Added{PassedOn(config), ""};
  }
  MOUNTD_ASSIGN(const Netns netns, OpenNetns(environment.netns));
  MOUNTD_ASSIGN(Client client, Told(Connect(config)));
  const auto status = MapOrMakeRoom(client, environment, config, netns);
  if (!status && status.error().code == Code::kNotFound) {
    return Failure{cni::kInvalidConfig,
                   "mountd has no interface " + environment.ifname +
                       " for this container; portmap needs mountd's bridge "
                       "before it in the list"};
  }
  if (!status) {
    return FailureOf(status.error());
  }
  return Added{PassedOn(config), UnmappedPorts(config.runtime.ports, *status)};
}

Outcome<void> DelPorts(const Environment& environment, const Config& config) {
  const auto cleared = AwaitMountd(
      config, [&](Client& client) { return Map(client, environment, {}); });
  if (!cleared && !IsForTheNextDel(cleared.error().code)) {
    return FailureOf(cleared.error());
  }
  return {};
}

Outcome<void> CheckPorts(const Environment& environment, const Config& config) {
  if (config.runtime.ports.empty()) {
    return {};
  }
  MOUNTD_ASSIGN(const NetworkStatus status, FindInterface(environment, config));
  for (const Port& port : config.runtime.ports) {
    if (!IsOptional(port) && !IsMapped(port, status)) {
      return FailureOf(MakeError(Code::kFailedPrecondition, "check", "port",
                                 "mountd does not map " + TextOf(port)));
    }
  }
  return {};
}

}  // namespace mountd::cni_plugin
