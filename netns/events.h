// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <set>
#include <span>
#include <string>

#include "mountd/base/result.h"
#include "netns/address.h"

// What the kernel tells on the sockets of WatchNetworks (network.h). They were
// opened with privilege; to read them takes none. Nothing here blocks.
namespace mountd::netns {

// What of allocations' networks may not be as it was made.
struct LinkEvents {
  std::set<std::string> links;  // host ends that went, or are changed now
  // Whose host end has a name that is not one of ours, or whose namespace has
  // lost its own.
  std::set<std::string> allocations;
  std::set<Ipv4> ipv4;  // whose route or neighbour went, or changed
  std::set<Ipv6> ipv6;
  bool overflowed = false;  // some are missing: anything may be
};

// All that is queued on an rtnetlink socket. Errors: recvmsg's.
Result<LinkEvents> ReadLinkEvents(int socket);

struct RulesetEvents {
  bool changed = false;     // the table, by others than mountd-exec
  bool forward = false;     // iptables' chain FORWARD, likewise
  bool overflowed = false;  // or maybe it was
};

// All that is queued on an nfnetlink socket. What others do to the operators'
// chain `admin` is no change.
class RulesetEventReader {
 public:
  Result<RulesetEvents> Read(int socket);

 private:
  void Take(int type, std::span<const std::byte> payload,
            RulesetEvents* events);

  // A transaction's changes come before the message that says whose it is, and
  // maybe with another read.
  bool touched_ = false;
  bool touched_forward_ = false;
};

}  // namespace mountd::netns
