// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mountd/service/caller_access.h"
#include "mountd/service/executor_features.h"
#include "mountd/service/service_parts.h"

namespace mountd {

struct Capabilities {
  std::map<std::string, bool> features;
  std::map<std::string, std::string> missing;  // feature, reason
  std::vector<std::string> network_modes;
  std::map<std::string, Networks::Usage> networks;
  struct HostPorts {
    PortRange range;
    std::uint32_t free = 0;  // ports that no allocation has
  };
  std::vector<HostPorts> host_ports;
  std::map<std::string, std::string> cni_plugins;  // type, version
  std::uint64_t executor_capabilities = 0;
  std::uint32_t stuck_executors = 0;
  std::vector<std::string> stores_set_aside;
  // The path where the mount namespace of the base is pinned; "" if the base is
  // in the host's mount namespace.
  std::string mount_namespace;
  std::uint32_t mount_reserve = 0;            // limits.mount_reserve
  std::chrono::milliseconds owed_warning{0};  // timeouts.owed_warning_ms
  bool administrator = false;                 // true if the caller is one
  bool rules = false;  // true if some rule names the caller

  void Set(const std::string& feature, bool present, const std::string& why) {
    features[feature] = present;
    if (!present) {
      missing[feature] = why;
    }
  }
};

// Owns nothing. Says what this node can do, and what is left of its limits.
// GetCapabilities runs on workers. The other functions answer at once on any
// thread. Never changes anything.
class CapabilityVerbs {
 public:
  CapabilityVerbs(const ServiceParts& parts, const CallerAccess& access,
                  ExecutorFeatures& features)
      : parts_(parts), access_(access), features_(features) {}

  // Returns what the node can do, and how much is left of what the caller's
  // rules grant.
  Result<Capabilities> GetCapabilities(const CallContext& call);
  // If true, GetCapabilities waits for CNI's plugins.
  bool HasCni() const { return parts_.config.cni().enabled(); }
  // Returns the path of the mount namespace to which the mounts' host paths
  // belong; "" for the host's.
  std::string MountNamespace() const;
  std::map<std::string, Networks::Usage> GetAddressUsage() const {
    return parts_.networks.GetUsage();
  }
  // Counts the free ports of all rules, each port once.
  std::uint32_t CountFreeHostPorts() const;
  std::uint32_t CountStuckExecutors() const { return parts_.executor.stuck(); }

 private:
  void AddNetworks(const Caller& caller, Capabilities* capabilities);
  void AddCniNetworks(const Caller& caller, Capabilities* capabilities);

  const ServiceParts& parts_;
  const CallerAccess& access_;
  ExecutorFeatures& features_;
};

}  // namespace mountd
