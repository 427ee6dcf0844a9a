// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "mountd/base/caller.h"
#include "mountd/base/result.h"
#include "mountd/config/config.h"
#include "mountd/networks/network_request.h"
#include "mountd/policy/rules.h"

namespace mountd {

// Decides who may be in which network, with which host ports. Answers as Policy
// does. Lives no longer than the Policy that returned it.
class NetworkPolicy {
 public:
  explicit NetworkPolicy(const PolicyRules& rules) : rules_(rules) {}

  Result<void> MayUseNetwork(const Caller& caller,
                             const NetworkRequest& request) const;
  // Returns whether the caller may ask for any CNI network.
  bool MayBeInSomeCni(const Caller& caller) const;
  // Returns the ranges of host ports that the caller's rules grant.
  std::vector<PortRange> HostPortsOf(const Caller& caller) const;
  // Returns whether the caller may pass network namespaces of the host's user
  // namespace.
  bool MayPassHostNamespaces(const Caller& caller) const;

 private:
  Result<void> MayBeIn(const Caller& caller, const std::string& network) const;
  Result<void> MayBeInCni(const Caller& caller,
                          const std::string& network) const;

  const PolicyRules& rules_;
};

}  // namespace mountd
