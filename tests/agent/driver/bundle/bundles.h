// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "agent/driver/bundle/config.h"

namespace mountd::driver {

// A container of a task that asks for nothing.
inline ContainerConfig PlainContainer() {
  ContainerConfig config;
  config.process.args = {"/bin/sh", "-c", "exit 7"};
  config.process.env = {{"PATH", "/usr/bin:/bin"}};
  config.process.capabilities = *CapabilitiesWith({});
  config.rootfs = "/srv/task/rootfs";
  config.hostname = "web";
  return config;
}

}  // namespace mountd::driver
