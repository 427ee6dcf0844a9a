// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/config.h"
#include "mountd/exec/plan.h"
#include "netns/netlink.h"

// One allocation's routed veth: host end and its own, no bridge. The host
// routes its addresses to the host end; it reaches everything else through an
// on-link gateway that no interface has. Neighbours are permanent on both
// sides, so nothing is ever resolved, flooded or stale.
namespace mountd::netns {

struct Veth {
  std::string object;  // the allocation, for errors
  std::string host_name;
  std::string name;  // inside
  Ipv4 ipv4{};
  Ipv6 ipv6{};  // none: no IPv6
  Mac mac{};
  Ipv4 host_ipv4{};  // what the host talks to it from (HostAddress)
  Ipv6 host_ipv6{};
  std::uint32_t mtu = 0;  // 0: the kernel's default
  // What the allocation reaches by it; a prefix of 0 is everything.
  std::vector<Ipv4Range> routes4;
  std::vector<Ipv6Range> routes6;
};

Veth VethFor(const exec::NetworkPlan& plan, const NetworkConfig& network);

// Puts HostAddress of each range onto lo, if it is not there: the source of the
// host's connections to allocations, whatever addresses the host has.
Result<void> AddHostAddresses(Channel* host, const NetworkConfig& network,
                              const std::string& object);

struct LinkFacts {
  std::uint32_t index = 0;  // 0: no such link
  bool up = false;
  bool carries = false;  // it is up, so is its peer, and packets pass
  Mac mac{};
  std::uint32_t peer_index = 0;  // in its namespace
  std::int32_t peer_nsid = -1;
  std::string alias;  // the allocation it was made for
};
Result<LinkFacts> FindLink(Channel* channel, const std::string& name);
Result<LinkFacts> FindLink(Channel* channel, std::uint32_t index);
// Leaves it down: before Linux 6.2 one that is up keeps its name.
Result<void> RenameLink(Channel* host, std::uint32_t index,
                        const std::string& name);

// True if the other end of `link` is in the namespace `netns`.
Result<bool> LeadsTo(Channel* host, const LinkFacts& link, int netns);

// The pair, its allocation's end born in `netns`. AlreadyExists if a link of
// the host end's name is there.
struct VethIndexes {
  std::uint32_t host = 0;
  std::uint32_t allocation = 0;
};
Result<VethIndexes> CreateVeth(Channel* host, const Veth& veth, int netns);
// `again`: what is there already is made right.
Result<void> ConfigureHostEnd(Channel* host, const Veth& veth,
                              std::uint32_t index, bool again = false);
Result<void> ConfigureAllocationEnd(Channel* inside, const Veth& veth,
                                    std::uint32_t index);
// Returns when packets pass, of which the kernel drops those that come before:
// the end that was raised first is made ready in a work of its own (linkwatch).
// After 50 ms in any case: who is root inside may have taken his end down.
Result<void> AwaitCarrier(Channel* host, const Veth& veth, std::uint32_t index);
// Its addresses, 127.0.0.1 and ::1, come and go with it.
Result<void> RaiseLoopback(Channel* inside, const std::string& object);
Result<void> LowerLoopback(Channel* inside, const std::string& object);
Result<bool> IsLoopbackUp(Channel* inside);

// Whether the host's end, the link `index`, is as it was made
// (netns/host_link.h), and has its routes and neighbours, just so.
Result<bool> IsHostEndRight(Channel* host, const Veth& veth,
                            std::uint32_t index);
// Whether the host has a route for just this address by another link than
// `index`.
Result<bool> IsRoutedElsewhere(Channel* host, const Ipv6& address,
                               std::uint32_t index);
// Adds to the allocation's end what is missing, and leaves what is there, but
// for the MAC, without which nothing reaches it: who is root inside may have
// changed it. True if there was something to do.
Result<bool> CompleteAllocationEnd(Channel* inside, const Veth& veth);

// Also takes a link whose namespace someone holds; none is success.
Result<void> DeleteLink(Channel* host, const std::string& name);

}  // namespace mountd::netns
