// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "agent/cni_plugin/environment.h"
#include "agent/cni_plugin/failure.h"
#include "agent/types.h"
#include "netns/cni/json.h"

namespace mountd::cni_plugin {

// What the runtime wants of one attachment, by the conventions of CNI's
// CONVENTIONS.md.
struct RuntimeConfig {
  std::vector<agent::Port> ports;  // labelled "0", "1" and so on
  std::string address;             // this one; "": any
  std::string address6;
  // For the result: {"nameservers", "domain", "search", "options"}; null where
  // neither the configuration nor the runtime has one.
  cni::Json dns;
};

// Of runtimeConfig.{portMappings, ips, dns, mac}, args.cni.{ips, mac}, dns and
// CNI_ARGS' IP and MAC. kUnsupportedField for another capability,
// kInvalidConfig, also for a MAC address that mountd gives no link,
// kInvalidEnvironment.
Outcome<RuntimeConfig> ReadRuntimeConfig(const cni::Json& document,
                                         const Environment& environment);

}  // namespace mountd::cni_plugin
