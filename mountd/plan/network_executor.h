// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"
#include "mountd/plan/handed_out_fd.h"
#include "mountd/plan/network_plans.h"

namespace mountd::exec {

// The plans on networks, their files and ports, and CNI's operations. Errors
// and threads as executor.h says.
class NetworkExecutor {
 public:
  virtual ~NetworkExecutor() = default;

  // Makes the base ruleset, forwarding and /run/netns if they are missing. If
  // the argument is true, also restores rules that somebody has changed.
  virtual Result<void> PrepareNetworks(bool anew) = 0;
  // AlreadyExists if a host port is mapped already, or a socket of the host
  // listens on it. `netns` is the namespace of a plan whose origin is kGiven,
  // else -1. `keeper` is the pidfd of a plan with has_keeper, else -1.
  virtual Result<NetworkState> CreateNetwork(const NetworkPlan& plan, int netns,
                                             int keeper) = 0;
  // Checks ports that CreateNetwork does not map. AlreadyExists if a socket of
  // the host listens on one of the plan's ports. FailedPrecondition where the
  // kernel does not list its sockets.
  virtual Result<void> CheckHostPorts(const NetworkPlan& plan, int keeper) = 0;
  // Returns once the ports, the rules for the addresses and the pinned name are
  // gone. The kernel may still be removing the link; InspectNetwork says when
  // the link is gone.
  virtual Result<void> DeleteNetwork(const NetworkPlan& plan) = 0;
  virtual Result<NetworkState> InspectNetwork(const NetworkPlan& plan) = 0;
  // FailedPrecondition if the network's namespace is gone.
  virtual Result<NetworkState> RepairNetwork(const NetworkPlan& plan) = 0;
  // Returns an fd of the allocation's namespace. FailedPrecondition if the
  // namespace is gone.
  virtual Result<HandedOutFd> OpenNamespace(const NetworkPlan& plan) = 0;
  // Replaces the port maps, all or nothing. AlreadyExists as CreateNetwork.
  // FailedPrecondition if the namespace, the link or the network's nf_tables
  // elements are not as the plan says.
  virtual Result<NetworkState> UpdatePorts(const PortsPlan& plan) = 0;
  virtual Result<UniqueFd> WatchNetworks(NetworkWatchKind kind) = 0;
  // Lists the networks that the kernel has, recorded or not (network_plans.h).
  virtual Result<std::vector<FoundNetwork>> ListNetworks() = 0;
  // `content` is a memfd of at most kMaxNetworkFileBytes.
  virtual Result<void> WriteNetworkFile(const NetworkFilePlan& plan,
                                        int content) = 0;
  virtual Result<void> RemoveNetworkFiles(const NetworkFilePlan& plan) = 0;

  // `request` is a memfd. The returned memfd holds at most kMaxCniAnswerBytes,
  // which third parties' plugins wrote. Takes up to timeouts.cni. NotSupported
  // without [cni].
  virtual Result<UniqueFd> RunCni(const CniPlan& plan, int request) = 0;
};

}  // namespace mountd::exec
