// SPDX-License-Identifier: LGPL-2.1-or-later
#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>

#include "agent/mountctl/commands/commands.h"
#include "agent/mountctl/commands/port_text.h"
#include "agent/mountctl/output/json.h"
#include "agent/mountctl/output/output.h"

namespace mountd::agent {
namespace {

// Returns CNI's networks, for which mountd has no addresses to count.
std::vector<std::string> CniNetworksOf(const Capabilities& offers) {
  std::vector<std::string> names;
  std::copy_if(offers.network_modes.begin(), offers.network_modes.end(),
               std::back_inserter(names), [](const std::string& mode) {
                 return mode.starts_with("cni/");
               });
  return names;
}

Result<void> ListNetworks(Client& client, bool json) {
  MOUNTD_ASSIGN(const Capabilities offers, client.GetCapabilities());
  const std::vector<std::string> cni = CniNetworksOf(offers);
  if (json) {
    Json all = ToJson(offers.addresses);
    for (const std::string& name : cni) {
      all[name] = Json::object();
    }
    std::cout << Dump(all) << std::endl;
    return Ok();
  }
  Table table({"NETWORK", "ADDRESSES", "FREE"});
  for (const auto& [name, usage] : offers.addresses) {
    table.Add(
        {name, std::to_string(usage.capacity), std::to_string(usage.free)});
  }
  for (const std::string& name : cni) {
    table.Add({name, "-", "-"});
  }
  table.Print(std::cout);
  Table ports({"HOST PORTS", "", "FREE"});
  for (const Capabilities::HostPorts& range : offers.host_ports) {
    ports.Add({std::to_string(range.first), std::to_string(range.last),
               std::to_string(range.free)});
  }
  ports.Print(std::cout);
  return Ok();
}

Result<std::vector<NetworkStatus>> NetworksOf(Client& client,
                                              const std::string& id) {
  MOUNTD_ASSIGN(AllocationStatus allocation, client.GetAllocation(id));
  if (allocation.networks.empty()) {
    return MakeError(Code::kNotFound, "network", id,
                     "the allocation has no network");
  }
  return std::move(allocation.networks);
}

Result<void> ShowNetworks(Client& client, const std::string& id, bool json) {
  MOUNTD_ASSIGN(const std::vector<NetworkStatus> networks,
                NetworksOf(client, id));
  if (json) {
    std::cout << Dump(ToJson(networks)) << std::endl;
    return Ok();
  }
  for (const NetworkStatus& network : networks) {
    std::cout << "network of " << id << '\n';
    PrintNetwork(std::cout, network);
  }
  return Ok();
}

void Print(const NetworkStatus& network, const std::string& id, bool json) {
  if (json) {
    std::cout << Dump(ToJson(network)) << std::endl;
    return;
  }
  std::cout << "network of " << id << '\n';
  PrintNetwork(std::cout, network);
}

Result<void> ShowNetwork(Client& client, const std::string& id,
                         const std::string& interface, bool json) {
  MOUNTD_ASSIGN(const NetworkStatus network, client.GetNetwork(id, interface));
  Print(network, id, json);
  return Ok();
}

// Prints only the addresses, a line each, for scripts.
Result<void> ShowAddresses(Client& client, const std::string& id, bool json) {
  MOUNTD_ASSIGN(const std::vector<NetworkStatus> networks,
                NetworksOf(client, id));
  std::vector<std::string> addresses;
  for (const NetworkStatus& network : networks) {
    for (const std::string& address : {network.address, network.address6}) {
      if (!address.empty()) {
        addresses.push_back(address);
      }
    }
  }
  if (json) {
    std::cout << Dump(Json(addresses)) << std::endl;
    return Ok();
  }
  for (const std::string& address : addresses) {
    std::cout << address << '\n';
  }
  return Ok();
}

using ShowOne = Result<void> (*)(Client& client, const std::string& id,
                                 bool json);

void AddForAllocation(CLI::App& parent, Context& context, const char* name,
                      const char* description, ShowOne show) {
  auto* command = parent.add_subcommand(name, description);
  auto id = std::make_shared<std::string>();
  command->add_option("ALLOC", *id, "The allocation's id")->required();
  command->callback([&context, id, show] {
    context.chosen = [&context, id, show] {
      return WithClient(context, [&](Client& client) {
        return show(client, *id, context.json);
      });
    };
  });
}

void AddShowNetwork(CLI::App& parent, Context& context) {
  auto* command =
      parent.add_subcommand("show", "Show one network of an allocation");
  auto id = std::make_shared<std::string>();
  auto interface = std::make_shared<std::string>();
  command->add_option("ALLOC", *id, "The allocation's id")->required();
  command->add_option("INTERFACE", *interface,
                      "The network's interface, if there are several networks");
  command->callback([&context, id, interface] {
    context.chosen = [&context, id, interface] {
      return WithClient(context, [&](Client& client) {
        return ShowNetwork(client, *id, *interface, context.json);
      });
    };
  });
}

void AddUpdatePorts(CLI::App& parent, Context& context) {
  struct Options {
    std::string id;
    std::string interface;
    std::vector<std::string> ports;
    bool none = false;
  };
  auto* command = parent.add_subcommand(
      "ports", "Replace the ports of a network while its tasks run");
  auto options = std::make_shared<Options>();
  command->add_option("ALLOC", options->id, "The allocation's id")->required();
  command->add_option("PORT", options->ports,
                      std::string("All ports from now on, each as ") +
                          kPortForm + "; udp? is mapped only if it is free");
  command->add_option("--interface", options->interface,
                      "The network's interface, if there are several networks");
  command->add_flag("--none", options->none, "Map no port from now on");
  command->callback([&context, options] {
    if (options->ports.empty() != options->none) {
      throw CLI::ValidationError("PORT", "name ports, or --none");
    }
    std::vector<Port> ports;
    for (const std::string& text : options->ports) {
      const Result<Port> port = ParsePort(text);
      if (!port) {
        throw CLI::ValidationError("PORT", port.error().Message());
      }
      ports.push_back(*port);
    }
    context.chosen = [&context, options, ports] {
      return WithClient(context, [&](Client& client) -> Result<void> {
        MOUNTD_ASSIGN(
            const NetworkStatus network,
            client.UpdatePorts(options->id, ports, options->interface));
        Print(network, options->id, context.json);
        return Ok();
      });
    };
  });
}

}  // namespace

void AddNetworkCommands(CLI::App& app, Context& context) {
  auto* network = app.add_subcommand(
      "network", "Show the networks of allocations and of the node");
  network->group(kPartsGroup)->require_subcommand(1);
  AddForAllocation(*network, context, "status", "Show an allocation's networks",
                   ShowNetworks);
  AddShowNetwork(*network, context);
  AddUpdatePorts(*network, context);
  network
      ->add_subcommand("list",
                       "List the node's networks and their free addresses")
      ->callback([&context] {
        context.chosen = [&context] {
          return WithClient(context, [&](Client& client) {
            return ListNetworks(client, context.json);
          });
        };
      });
  AddForAllocation(*app.get_subcommand("alloc"), context, "ip",
                   "Print an allocation's addresses, one a line",
                   ShowAddresses);
}

}  // namespace mountd::agent
