// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/base.h"

// Plugins that root's configuration declares, as transient systemd units
// mountd-plugin-<name>.service: root, without a sandbox, so that they share the
// host's mount namespace and what they mount below their directory is there.
// systemd is spoken to by its own programs, in a child under a deadline.
namespace mountd::propagation {

// Success also if its unit is there already, whatever it was started as.
// NotSupported where systemd does not run.
Result<void> StartPlugin(const Context& context, const exec::PluginPlan& plan);

// Asks for its end, and does not wait for it. None is success.
Result<void> StopPlugin(const Context& context, const exec::PluginPlan& plan);

}  // namespace mountd::propagation
