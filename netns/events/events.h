// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <set>
#include <span>
#include <string>

#include "mountd/base/result.h"
#include "netns/address/address.h"

// Reads what the kernel reports on the sockets of WatchNetworks (network.h).
// The executor opened these sockets with privilege; reading them needs none.
// Never blocks.
namespace mountd::netns {

// The parts of allocations' networks that may no longer be as the executor made
// them.
struct LinkEvents {
  std::set<std::string> links;  // host ends that are gone or changed
  // Allocations whose host end has a name that mountd did not give, or whose
  // namespace has lost its name.
  std::set<std::string> allocations;
  std::set<Ipv4> ipv4;  // their route or neighbour is gone or changed
  std::set<Ipv6> ipv6;
  bool overflowed = false;  // messages are lost: anything may have changed
};

// Reads all messages that are queued on an rtnetlink socket. The errors are
// those of recvmsg(2).
Result<LinkEvents> ReadLinkEvents(int socket);

struct RulesetEvents {
  bool changed = false;     // the table changed, not by mountd-exec
  bool forward = false;     // the same for iptables' chain FORWARD
  bool overflowed = false;  // messages are lost: both may have changed
};

// Reads all messages that are queued on an nfnetlink socket. A change in the
// operators' chain `admin` does not count.
class RulesetEventReader {
 public:
  Result<RulesetEvents> Read(int socket);

 private:
  void Take(int type, std::span<const std::byte> payload,
            RulesetEvents* events);

  // A transaction's changes come before the message that names its process,
  // perhaps in an earlier read.
  bool touched_ = false;
  bool touched_forward_ = false;
};

}  // namespace mountd::netns
