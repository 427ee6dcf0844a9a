// SPDX-License-Identifier: LGPL-2.1-or-later

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dbus/methods/dict_to_network_request.h"
#include "dbus/methods/manager_serve.h"
#include "dbus/receive/inbound.h"
#include "mountd/base/unique_fd.h"
#include "mountd/closer/passed_fd.h"

// ManagerAdaptor's methods on allocations' networks.
namespace mountd::dbus {
namespace {

// A namespace and a process that came with a call; invalid fds if none came.
struct PassedNetns {
  std::shared_ptr<UniqueFd> fd = std::make_shared<UniqueFd>();
  std::uint64_t inode = 0;
  std::shared_ptr<UniqueFd> keeper = std::make_shared<UniqueFd>();
};

Result<void> ReadKeeper(OptionReader& reader, PassedNetns* passed) {
  const auto given = reader.Get<sdbus::UnixFd>("ports_keeper", sdbus::UnixFd());
  if (!given.isValid()) {
    return Ok();
  }
  passed->keeper = TakePassed(given.get());
  return IsProcess(passed->keeper->get())
             ? Ok()
             : Result<void>(MakeError(Code::kInvalidArgument, "check",
                                      "options[\"ports_keeper\"]",
                                      "must be a pidfd"));
}

Result<PassedNetns> NetnsFrom(OptionReader& reader) {
  PassedNetns netns;
  MOUNTD_TRY(ReadKeeper(reader, &netns));
  const auto given = reader.Get<sdbus::UnixFd>("netns", sdbus::UnixFd());
  if (!given.isValid()) {
    return netns;
  }
  netns.fd = TakePassed(given.get());
  const std::optional<std::uint64_t> inode = NamespaceInodeOf(netns.fd->get());
  if (!inode) {
    return MakeError(Code::kInvalidArgument, "check", "options[\"netns\"]",
                     "must be an fd of a network namespace");
  }
  netns.inode = *inode;
  return netns;
}

void AddCni(const CniSettings& cni, Arguments* arguments) {
  arguments->Add(cni.args).Add(cni.mac).Add(cni.ips);
  const CniSettings::Bandwidth& rates = cni.bandwidth;
  arguments->Add(std::to_string(rates.ingress_rate))
      .Add(std::to_string(rates.ingress_burst))
      .Add(std::to_string(rates.egress_rate))
      .Add(std::to_string(rates.egress_burst));
}

void AddFiles(const NetworkFiles& files, Arguments* arguments) {
  arguments->Add(files.hostname)
      .Add(files.dns.servers)
      .Add(files.dns.searches)
      .Add(files.dns.options)
      .Add(std::to_string(files.hosts.size()));
  for (const HostEntry& entry : files.hosts) {
    arguments->Add(entry.address).Add(entry.names);
  }
}

void AddPorts(const std::vector<PortStruct>& ports, Arguments* arguments) {
  for (const PortStruct& port : ports) {
    arguments->Add(port.get<0>())
        .Add(port.get<1>())
        .Add(std::to_string(port.get<2>()))
        .Add(std::to_string(port.get<3>()))
        .Add(std::to_string(port.get<4>()))
        .Add(port.get<5>());
  }
}

Arguments ArgumentsOf(const std::string& allocation, const std::string& mode,
                      const std::vector<PortStruct>& ports,
                      const NetworkRequest& request,
                      const PassedNetns& passed) {
  Arguments arguments;
  arguments.Add(allocation)
      .Add(mode)
      .Add(request.network)
      .Add(request.interface);
  arguments.Add(netns::ToString(request.ipv4))
      .Add(netns::ToString(request.ipv6));
  arguments.Add(request.isolated ? "isolated" : "");
  arguments.Add(request.default_route ? std::to_string(*request.default_route)
                                      : "");
  arguments.Add(std::to_string(passed.inode));
  arguments.Add(passed.keeper->valid() ? TaskOf(passed.keeper->get()) : "");
  AddFiles(request.files, &arguments);
  AddCni(request.cni, &arguments);
  AddPorts(ports, &arguments);
  return arguments;
}

// The network that a call is about. An empty interface means the only one, or
// all for a tear-down.
struct NetworkOfCall {
  Name allocation;
  std::string interface;
};

// Reads the network as the last of the options.
Result<NetworkOfCall> NetworkFrom(OptionReader& reader,
                                  const std::string& allocation) {
  auto interface = reader.Get<std::string>("interface", "");
  MOUNTD_TRY(reader.Finish());
  MOUNTD_ASSIGN(Name id, Name::Parse("allocation", allocation));
  if (!interface.empty()) {
    MOUNTD_TRY(Name::Parse("interface", interface));
  }
  return NetworkOfCall{std::move(id), std::move(interface)};
}

}  // namespace

void ManagerAdaptor::SetupNetwork(sdbus::Result<Dict>&& answer,
                                  std::string allocation, std::string mode,
                                  std::vector<PortStruct> ports, Dict options) {
  Serve<NetworkStatus>(
      std::move(answer), "SetupNetwork",
      [&]() -> Result<Decoded<NetworkStatus>> {
        Decoded<NetworkStatus> call;
        OptionReader reader("options", options);
        call.patience = Patience(reader);
        MOUNTD_ASSIGN(NetworkRequest request, NetworkRequestFrom(mode, reader));
        MOUNTD_ASSIGN(const PassedNetns netns, NetnsFrom(reader));
        MOUNTD_TRY(reader.Finish());
        MOUNTD_ASSIGN(const Name id, Name::Parse("allocation", allocation));
        MOUNTD_TRY(Name::Parse("network", request.network));
        MOUNTD_ASSIGN(request.ports, PortsFrom(ports));
        call.strand = AllocationStrand(id.str());
        call.arguments =
            ArgumentsOf(allocation, mode, ports, request, netns).text();
        call.work = [id, request, netns](Services& services,
                                         const CallContext& context) {
          GivenNetns given;
          given.fd = netns.fd->get();
          given.inode = netns.inode;
          given.keeper = netns.keeper->get();
          return services.networks.SetupNetwork(context, id, request, given);
        };
        return call;
      },
      [](const NetworkStatus& status) { return ToDict(status); });
}

void ManagerAdaptor::GetNetwork(sdbus::Result<Dict>&& answer,
                                std::string allocation, Dict options) {
  using T = NetworkVerbs::Network;
  Serve<T>(
      std::move(answer), "GetNetwork",
      [&]() -> Result<Decoded<T>> {
        Decoded<T> call;
        OptionReader reader("options", options);
        call.patience = Patience(reader);
        const bool open = reader.Get<bool>("netns_fd", false);
        MOUNTD_ASSIGN(const NetworkOfCall of, NetworkFrom(reader, allocation));
        if (open) {
          call.strand = AllocationStrand(of.allocation.str());
        }
        call.arguments =
            Arguments::Of(allocation, of.interface, open ? "netns_fd" : "");
        call.work = [of, open](Services& services, const CallContext& context) {
          return services.networks.GetNetwork(context, of.allocation,
                                              of.interface, open);
        };
        return call;
      },
      [](const T& network) {
        Dict dict = ToDict(network.status);
        if (network.netns != nullptr) {
          dict.emplace("netns", Value(sdbus::UnixFd(network.netns->get())));
        }
        return dict;
      });
}

void ManagerAdaptor::UpdatePorts(sdbus::Result<Dict>&& answer,
                                 std::string allocation,
                                 std::vector<PortStruct> ports, Dict options) {
  Serve<NetworkStatus>(
      std::move(answer), "UpdatePorts",
      [&]() -> Result<Decoded<NetworkStatus>> {
        Decoded<NetworkStatus> call;
        OptionReader reader("options", options);
        call.patience = Patience(reader);
        MOUNTD_ASSIGN(const NetworkOfCall of, NetworkFrom(reader, allocation));
        MOUNTD_ASSIGN(const std::vector<PortMapping> mappings,
                      PortsFrom(ports));
        Arguments arguments;
        arguments.Add(allocation).Add(of.interface);
        AddPorts(ports, &arguments);
        call.strand = AllocationStrand(of.allocation.str());
        call.arguments = arguments.text();
        call.work = [of, mappings](Services& services,
                                   const CallContext& context) {
          return services.networks.UpdatePorts(context, of.allocation,
                                               of.interface, mappings);
        };
        return call;
      },
      [](const NetworkStatus& status) { return ToDict(status); });
}

void ManagerAdaptor::TeardownNetwork(sdbus::Result<>&& answer,
                                     std::string allocation, Dict options) {
  Serve<void>(
      std::move(answer), "TeardownNetwork",
      [&]() -> Result<Decoded<void>> {
        Decoded<void> call;
        OptionReader reader("options", options);
        call.patience = Patience(reader);
        MOUNTD_ASSIGN(const NetworkOfCall of, NetworkFrom(reader, allocation));
        call.strand = AllocationStrand(of.allocation.str());
        call.arguments = Arguments::Of(allocation, of.interface);
        call.work = [of](Services& services, const CallContext& context) {
          return services.networks.TeardownNetwork(context, of.allocation,
                                                   of.interface);
        };
        return call;
      },
      NoConversion());
}

}  // namespace mountd::dbus
