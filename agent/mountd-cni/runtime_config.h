// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "agent/mountd-cni/environment.h"
#include "agent/mountd-cni/failure.h"
#include "agent/types.h"
#include "netns/cni/documents/json.h"

namespace mountd::cni_plugin {

// The settings that the runtime asks for in one attachment, by the conventions
// of CNI's CONVENTIONS.md.
struct RuntimeConfig {
  std::vector<agent::Port> ports;  // with the labels "0", "1" and so on
  std::string address;             // exactly this one; "": any free one
  std::string address6;
  // For the result: {"nameservers", "domain", "search", "options"}; null if
  // neither the configuration nor the runtime gives one.
  cni::Json dns;
};

// Puts a "?" behind the "udp" of each port that the list has for TCP, too, with
// the same numbers and address (agent::Port::protocols). mountd then leaves the
// UDP port out if it is not free, and does not refuse both.
void MakeUdpOptional(std::vector<agent::Port>* ports);

// Reads runtimeConfig.{portMappings, ips, dns, mac}, args.cni.{ips, mac}, dns,
// and IP and MAC of CNI_ARGS. Errors:
// - kUnsupportedField for another capability.
// - kInvalidConfig for a wrong value, and for a MAC address that mountd does
//   not give to a link.
// - kInvalidEnvironment for CNI_ARGS.
Outcome<RuntimeConfig> ReadRuntimeConfig(const cni::Json& document,
                                         const Environment& environment);

}  // namespace mountd::cni_plugin
