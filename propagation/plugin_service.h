// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/plan/plugin_plans.h"
#include "propagation/ground/base.h"

// Plugins that root's configuration declares run as transient systemd units
// mountd-plugin-<name>.service. These plugins run as root and without a
// sandbox, so that they share the host's mount namespace and their mounts below
// the plugin's directory appear there. The executor runs systemd's own programs
// in a child under a deadline.
namespace mountd::propagation {

// Starts the plugin. Success also if its unit is loaded already, whatever
// command it was started with. NotFound if the configuration does not declare
// the plugin. NotSupported where systemd does not run.
Result<void> StartPlugin(const Context& context, const exec::PluginPlan& plan);

// Asks systemd to stop the plugin, and does not wait. A missing unit is
// success.
Result<void> StopPlugin(const Context& context, const exec::PluginPlan& plan);

}  // namespace mountd::propagation
