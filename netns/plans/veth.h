// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/config/config.h"
#include "mountd/plan/network_plans.h"
#include "netns/plans/netlink.h"

// An allocation's routed veth: the host end and the allocation's end, without a
// bridge. The host routes the allocation's addresses to the host end. The
// allocation reaches everything else through an on-link gateway whose address
// no interface has. Neighbours are permanent on both sides, so the kernel
// resolves nothing, floods nothing and has no stale entry.
namespace mountd::netns {

struct Veth {
  std::string object;  // the allocation, for errors
  std::string host_name;
  std::string name;  // the interface's name in the namespace
  Ipv4 ipv4{};       // all zero: no IPv4
  Ipv6 ipv6{};       // all zero: no IPv6
  Mac mac{};
  Ipv4 host_ipv4{};  // source of the host's packets (HostAddress)
  Ipv6 host_ipv6{};
  std::uint32_t mtu = 0;  // 0: the kernel's default
  // The ranges that the allocation reaches by this link; prefix 0 is
  // everything.
  std::vector<Ipv4Range> routes4;
  std::vector<Ipv6Range> routes6;
};

Veth VethFor(const exec::NetworkPlan& plan, const NetworkConfig& network);

// Adds HostAddress of each range to lo where it is missing. The host's
// connections to allocations have this source, whatever other addresses the
// host has.
Result<void> AddHostAddresses(Channel* host, const NetworkConfig& network,
                              const std::string& object);

struct LinkFacts {
  std::uint32_t index = 0;  // 0: no such link
  bool up = false;
  bool carries = false;  // both ends are up, and packets pass
  Mac mac{};
  std::uint32_t peer_index = 0;  // in the peer's namespace
  std::int32_t peer_nsid = -1;
  std::string alias;  // the allocation that the link was made for
};
Result<LinkFacts> FindLink(Channel* channel, const std::string& name);
Result<LinkFacts> FindLink(Channel* channel, std::uint32_t index);
// Renames the link and leaves it down, because Linux before 6.2 refuses to
// rename a link that is up.
Result<void> RenameLink(Channel* host, std::uint32_t index,
                        const std::string& name);

// Returns whether the other end of `link` is in the namespace `netns`.
Result<bool> LeadsTo(Channel* host, const LinkFacts& link, int netns);

// Makes the pair; the kernel makes the allocation's end directly in `netns`.
// AlreadyExists if a link has the host end's name.
struct VethIndexes {
  std::uint32_t host = 0;
  std::uint32_t allocation = 0;
};
Result<VethIndexes> CreateVeth(Channel* host, const Veth& veth, int netns);
// With `again` true, also corrects what an earlier call has made.
Result<void> ConfigureHostEnd(Channel* host, const Veth& veth,
                              std::uint32_t index, bool again = false);
Result<void> ConfigureAllocationEnd(Channel* inside, const Veth& veth,
                                    std::uint32_t index);
// Waits until packets pass, because the kernel drops earlier ones: deferred
// work (linkwatch) gets the end ready that was raised first. Returns after 50
// ms in any case, because root inside may have taken its end down.
Result<void> AwaitCarrier(Channel* host, const Veth& veth, std::uint32_t index);
// The kernel adds lo's addresses, 127.0.0.1 and ::1, when lo goes up, and
// removes them when lo goes down.
Result<void> RaiseLoopback(Channel* inside, const std::string& object);
Result<void> LowerLoopback(Channel* inside, const std::string& object);
Result<bool> IsLoopbackUp(Channel* inside);

// Returns whether the host end, the link `index`, is as an executor made it
// (netns/events/host_link.h), with exactly its routes and neighbours.
Result<bool> IsHostEndRight(Channel* host, const Veth& veth,
                            std::uint32_t index);
// Returns whether the host routes exactly this address by a link other than
// `index`.
Result<bool> IsRoutedElsewhere(Channel* host, const Ipv6& address,
                               std::uint32_t index);
// Adds what is missing at the allocation's end, and changes nothing else except
// the MAC. root inside may have changed the MAC, and without the right one no
// packet reaches the allocation. Returns whether there was something to do.
Result<bool> CompleteAllocationEnd(Channel* inside, const Veth& veth);

// Deletes the link, also if a process holds its namespace. A missing link is
// success.
Result<void> DeleteLink(Channel* host, const std::string& name);

}  // namespace mountd::netns
