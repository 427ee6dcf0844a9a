// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-cni/verbs.h"

#include <utility>

#include "agent/client.h"
#include "agent/mountd-cni/abandoned.h"
#include "agent/mountd-cni/attachment_ids.h"
#include "agent/mountd-cni/attachment_removal.h"
#include "agent/mountd-cni/links.h"
#include "agent/mountd-cni/mountd_calls.h"
#include "agent/mountd-cni/port_verbs.h"
#include "agent/mountd-cni/ports_keeper.h"
#include "agent/mountd-cni/result.h"

namespace mountd::cni_plugin {
namespace {

using agent::Client;

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

// Prepares the allocation and, if it was made for another configuration, a
// marker.
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

// True for the codes with which mountd refuses a keeper that is no longer a
// process of this user.
bool IsOfTheKeeper(Code code) {
  return code == Code::kPermissionDenied || code == Code::kFailedPrecondition;
}

Result<agent::NetworkStatus> Attach(Client& client,
                                    const Environment& environment,
                                    const Config& config, int netns) {
  const std::string allocation = AllocationOf(environment.container_id);
  MOUNTD_TRY(PrepareFor(client, allocation, environment.ifname, config.name));
  agent::NetworkSpec spec = SpecOf(environment, config, netns);
  const UniqueFd keeper = spec.ports.empty()
                              ? UniqueFd()
                              : FindPortsKeeper(environment.container_id);
  if (!keeper.valid()) {
    return client.SetupNetwork(allocation, spec);
  }
  spec.ports_keeper = keeper.get();
  Result<agent::NetworkStatus> status = client.SetupNetwork(allocation, spec);
  if (status || !IsOfTheKeeper(status.error().code)) {
    return status;
  }
  // The keeper has ended meanwhile, so it keeps no port any more.
  spec.ports_keeper = -1;
  return client.SetupNetwork(allocation, spec);
}

// True for the codes that an attachment whose DEL never came may cause.
bool MayBeInTheWay(Code code) {
  return code == Code::kAlreadyExists || code == Code::kFailedPrecondition ||
         code == Code::kPermissionDenied;
}

Result<agent::NetworkStatus> AttachOrMakeRoom(Client& client,
                                              const Environment& environment,
                                              const Config& config,
                                              const Netns& netns) {
  const int fd = netns.fd.get();
  Result<agent::NetworkStatus> status = Attach(client, environment, config, fd);
  if (status || !MayBeInTheWay(status.error().code)) {
    return status;
  }
  const Result<bool> made =
      MakeRoom(client, environment, config, netns, Own::kRemove);
  // Returns the refusal, because it says more than the reason why room could
  // not be made.
  return made && *made ? Attach(client, environment, config, fd) : status;
}

// mountd has two errors for a network that is not declared and a network that
// mountd refuses. For the runtime both are an unusable configuration.
Failure AddFailure(const Error& error) {
  Failure failure = FailureOf(error);
  if (error.code == Code::kNotFound || error.code == Code::kInvalidArgument) {
    failure.code = cni::kInvalidConfig;
  }
  return failure;
}

// Finds the MAC addresses of both ends. Leaves an address empty that this user
// may not read; only root may read both.
Macs MacsOf(const agent::NetworkStatus& status, const Netns& netns) {
  const auto host = MacOf(status.host_interface);
  const auto container = MacOf(status.interface, netns.fd.get());
  return {host ? *host : "", container ? *container : ""};
}

Failure NotAvailable(const std::string& why) {
  return {cni::kPluginNotAvailable, why};
}

}  // namespace

Outcome<Added> Add(const Environment& environment, const Config& config) {
  MOUNTD_ASSIGN(const Netns netns, OpenNetns(environment.netns));
  MOUNTD_ASSIGN(Client client, Told(Connect(config)));
  const auto status = AttachOrMakeRoom(client, environment, config, netns);
  if (!status) {
    const Failure failure = AddFailure(status.error());
    // If mountd is out of reach, DEL undoes the attachment.
    if (failure.code != cni::kTryAgainLater) {
      IgnoreBecauseBestEffort(Tidy(client,
                                   AllocationOf(environment.container_id),
                                   environment.ifname, config.name));
    }
    return failure;
  }
  return Added{ResultOf(*status, environment, config, MacsOf(*status, netns)),
               UnmappedPorts(config.runtime.ports, *status)};
}

Outcome<void> Del(const Environment& environment, const Config& config) {
  return Told(AwaitMountd(config, [&](Client& client) {
    return Detach(client, AllocationOf(environment.container_id),
                  environment.ifname, config.name);
  }));
}

Outcome<void> Check(const Environment& environment, const Config& config) {
  MOUNTD_ASSIGN(const Netns netns, OpenNetns(environment.netns));
  MOUNTD_ASSIGN(const agent::NetworkStatus own,
                FindInterface(environment, config));
  MOUNTD_TRY(CheckResult(own, environment, config, netns.inode));
  // mountd answers from its records. So CHECK asks the kernel, too, if this
  // user may enter the namespace.
  const auto mac = MacOf(environment.ifname, netns.fd.get());
  return mac || mac.error().code != Code::kNotFound
             ? Outcome<void>()
             : FailureOf(MakeError(Code::kFailedPrecondition, "check",
                                   environment.ifname,
                                   "does not exist in the namespace"));
}

Outcome<void> Gc(const Config& config) {
  return Told(AwaitMountd(
      config, [&](Client& client) { return CollectGarbage(client, config); }));
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
