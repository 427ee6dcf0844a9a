// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.pb.h>

#include <vector>

#include "agent/types_plugins.h"
#include "mountd/base/result.h"

// Capabilities of the real plugin that the proxy offers, too: those of its
// calls that mountd has a method for.
namespace mountd::csi_proxy {

// Unavailable if the plugin was never ready, so that nothing is known of it.
Result<void> CheckWasReady(const agent::PluginStatus& status);

// Those of all instances, because the controller may be another instance than
// the node's plugin.
std::vector<::csi::v1::PluginCapability::Service::Type> ServicesOf(
    const agent::PluginStatus& status);
std::vector<::csi::v1::ControllerServiceCapability::RPC::Type> ControllerRpcsOf(
    const agent::PluginStatus& status);

std::vector<::csi::v1::NodeServiceCapability::RPC::Type> NodeRpcsOf(
    const agent::PluginStatus& status);

}  // namespace mountd::csi_proxy
