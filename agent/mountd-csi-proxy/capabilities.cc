// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-csi-proxy/capabilities.h"

#include <set>
#include <string>

namespace mountd::csi_proxy {
namespace {

namespace pb = ::csi::v1;
using Names = std::vector<std::string>;

std::set<std::string> NamesOf(const agent::PluginStatus& status,
                              Names agent::PluginStatus::*names) {
  std::set<std::string> all((status.*names).begin(), (status.*names).end());
  for (const agent::PluginStatus& instance : status.instances) {
    all.insert((instance.*names).begin(), (instance.*names).end());
  }
  return all;
}

}  // namespace

Result<void> CheckWasReady(const agent::PluginStatus& status) {
  return status.provider.empty()
             ? Result<void>(MakeError(Code::kUnavailable, "look at the plugin",
                                      status.id,
                                      "was never ready: " + status.reason))
             : Ok();
}

std::vector<pb::PluginCapability::Service::Type> ServicesOf(
    const agent::PluginStatus& status) {
  using Service = pb::PluginCapability::Service;
  std::vector<Service::Type> types;
  for (const std::string& name :
       NamesOf(status, &agent::PluginStatus::plugin_capabilities)) {
    Service::Type type{};
    if (Service::Type_Parse(name, &type) && type != Service::UNKNOWN &&
        type != Service::SNAPSHOT_METADATA_SERVICE) {
      types.push_back(type);
    }
  }
  return types;
}

std::vector<pb::ControllerServiceCapability::RPC::Type> ControllerRpcsOf(
    const agent::PluginStatus& status) {
  using Rpc = pb::ControllerServiceCapability::RPC;
  std::vector<Rpc::Type> types;
  for (const std::string& name :
       NamesOf(status, &agent::PluginStatus::controller_capabilities)) {
    Rpc::Type type{};
    if (Rpc::Type_Parse(name, &type) && type != Rpc::UNKNOWN) {
      types.push_back(type);
    }
  }
  return types;
}

std::vector<pb::NodeServiceCapability::RPC::Type> NodeRpcsOf(
    const agent::PluginStatus& status) {
  using Rpc = pb::NodeServiceCapability::RPC;
  const std::set<Rpc::Type> forwarded = {
      Rpc::GET_VOLUME_STATS, Rpc::EXPAND_VOLUME, Rpc::VOLUME_CONDITION,
      Rpc::SINGLE_NODE_MULTI_WRITER, Rpc::VOLUME_MOUNT_GROUP};
  std::vector<Rpc::Type> types;
  for (const std::string& name : status.node_capabilities) {
    Rpc::Type type{};
    if (Rpc::Type_Parse(name, &type) && forwarded.contains(type)) {
      types.push_back(type);
    }
  }
  return types;
}

}  // namespace mountd::csi_proxy
