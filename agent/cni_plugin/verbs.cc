// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/cni_plugin/verbs.h"

#include <algorithm>
#include <utility>

#include "agent/client.h"
#include "agent/cni_plugin/attachment_ids.h"
#include "agent/cni_plugin/detach.h"
#include "agent/cni_plugin/links.h"
#include "agent/cni_plugin/result.h"

namespace mountd::cni_plugin {
namespace {

using agent::Client;

Result<Client> Connect(const Config& config) {
  agent::ClientOptions options;
  options.address = config.address;
  options.connect_timeout = std::min(options.connect_timeout, config.timeout);
  options.deadline = config.timeout;
  return Client::Connect(std::move(options));
}

agent::NetworkSpec SpecOf(const Environment& environment, const Config& config,
                          int netns) {
  agent::NetworkSpec spec;
  spec.network = config.network;
  spec.ports = config.runtime.ports;
  spec.interface = environment.ifname;
  spec.address = config.runtime.address;
  spec.address6 = config.runtime.address6;
  spec.isolated = config.isolated;
  spec.netns = netns;
  return spec;
}

// The allocation and, where it was made for another configuration, a marker.
Result<void> PrepareFor(Client& client, const std::string& allocation,
                        const std::string& ifname, const std::string& name) {
  MOUNTD_TRY(client.PrepareAllocation(allocation, {.scope = name}));
  MOUNTD_ASSIGN(const agent::AllocationStatus status,
                client.GetAllocation(allocation));
  if (status.scope == name) {
    return Ok();
  }
  MOUNTD_TRY(
      client.PrepareAllocation(MarkerOf(allocation, ifname), {.scope = name}));
  return Ok();
}

Result<agent::NetworkStatus> Attach(Client& client,
                                    const Environment& environment,
                                    const Config& config, int netns) {
  const std::string allocation = AllocationOf(environment.container_id);
  MOUNTD_TRY(PrepareFor(client, allocation, environment.ifname, config.name));
  return client.SetupNetwork(allocation, SpecOf(environment, config, netns));
}

// mountd tells a network that is not declared from one that it refuses; to the
// runtime both are a configuration that will not do.
Failure AddFailure(const Error& error) {
  Failure failure = FailureOf(error);
  if (error.code == Code::kNotFound || error.code == Code::kInvalidArgument) {
    failure.code = cni::kInvalidConfig;
  }
  return failure;
}

// As far as we may look: as another user than root we may not.
Macs MacsOf(const agent::NetworkStatus& status, const Netns& netns) {
  const auto host = MacOf(status.host_interface);
  const auto container = MacOf(status.interface, netns.fd.get());
  return {host ? *host : "", container ? *container : ""};
}

Failure NotAvailable(const std::string& why) {
  return {cni::kPluginNotAvailable, why};
}

}  // namespace

Outcome<cni::Json> Add(const Environment& environment, const Config& config) {
  MOUNTD_ASSIGN(const Netns netns, OpenNetns(environment.netns));
  MOUNTD_ASSIGN(Client client, Told(Connect(config)));
  const auto status = Attach(client, environment, config, netns.fd.get());
  if (!status) {
    const Failure failure = AddFailure(status.error());
    if (failure.code != cni::kTryAgainLater) {
      IgnoreBecauseBestEffort(Tidy(client,
                                   AllocationOf(environment.container_id),
                                   environment.ifname, config.name));
    }
    return failure;
  }
  return ResultOf(*status, environment, config, MacsOf(*status, netns));
}

Outcome<void> Del(const Environment& environment, const Config& config) {
  MOUNTD_ASSIGN(Client client, Told(Connect(config)));
  return Told(Detach(client, AllocationOf(environment.container_id),
                     environment.ifname, config.name));
}

Outcome<void> Check(const Environment& environment, const Config& config) {
  MOUNTD_ASSIGN(const Netns netns, OpenNetns(environment.netns));
  MOUNTD_ASSIGN(Client client, Told(Connect(config)));
  const auto status =
      client.GetAllocation(AllocationOf(environment.container_id));
  if (!status && status.error().code != Code::kNotFound) {
    return FailureOf(status.error());
  }
  const std::vector<agent::NetworkStatus> networks =
      status ? status->networks : std::vector<agent::NetworkStatus>();
  const auto own =
      std::find_if(networks.begin(), networks.end(),
                   [&](const agent::NetworkStatus& network) {
                     return network.interface == environment.ifname;
                   });
  if (own == networks.end()) {
    return Failure{cni::kUnknownContainer,
                   "mountd has no " + environment.ifname + " of it"};
  }
  MOUNTD_TRY(CheckResult(*own, environment, config, netns.inode));
  // mountd answers from its records; whoever may look asks the kernel, too.
  const auto mac = MacOf(environment.ifname, netns.fd.get());
  return mac || mac.error().code != Code::kNotFound
             ? Outcome<void>()
             : FailureOf(MakeError(Code::kFailedPrecondition, "check",
                                   environment.ifname, "is not there"));
}

Outcome<void> Gc(const Config& config) {
  MOUNTD_ASSIGN(Client client, Told(Connect(config)));
  return Told(CollectGarbage(client, config));
}

Outcome<void> Status(const Config& config) {
  Result<Client> client = Connect(config);
  if (!client) {
    return NotAvailable(client.error().Message());
  }
  const auto capabilities = client->GetCapabilities();
  if (!capabilities) {
    return NotAvailable(capabilities.error().Message());
  }
  return capabilities->addresses.contains(config.network)
             ? Outcome<void>()
             : NotAvailable("mountd has no network " + config.network +
                            " for this user");
}

}  // namespace mountd::cni_plugin
