// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mountd/base/unique_fd.h"
#include "mountd/service/caller_access.h"
#include "mountd/service/service_parts.h"
#include "mountd/service/teardowns.h"

namespace mountd {

// Owns nothing; sets up and tears down allocations' networks. Runs on workers,
// on the allocation's strand. Never logs an error that it returns.
class NetworkVerbs {
 public:
  NetworkVerbs(const ServiceParts& parts, const CallerAccess& access,
               Teardowns& teardowns)
      : parts_(parts), access_(access), teardowns_(teardowns) {}

  // `given` has an fd, which stays open until the call returns, and the inode
  // of the namespace.
  Result<NetworkStatus> SetupNetwork(const CallContext& call,
                                     const Name& allocation,
                                     const NetworkRequest& spec,
                                     GivenNetns given = {});
  struct Network {
    NetworkStatus status;
    std::shared_ptr<UniqueFd> netns;  // shared_ptr, because results are copied
  };
  // Returns the network of the interface; with "" the only one. With `open`
  // also opens its namespace, for the allocation's owner alone.
  Result<Network> GetNetwork(const CallContext& call, const Name& allocation,
                             const std::string& interface, bool open);
  // Replaces the ports of the network of the interface. With "" it is the only
  // network.
  Result<NetworkStatus> UpdatePorts(const CallContext& call,
                                    const Name& allocation,
                                    const std::string& interface,
                                    const std::vector<PortMapping>& ports);
  // Returns whether the rules of the allocation's owner now grant the network
  // and its ports (Networks::Events). False if the owner cannot be read, or if
  // the user database does not answer and the answer depends on it. Called on
  // any thread.
  bool GrantsPorts(const NetworkRecord& record) const;
  // Removes one network; "" removes all.
  Result<void> TeardownNetwork(const CallContext& call, const Name& allocation,
                               const std::string& interface = "");

 private:
  const ServiceParts& parts_;
  const CallerAccess& access_;
  Teardowns& teardowns_;
};

}  // namespace mountd
