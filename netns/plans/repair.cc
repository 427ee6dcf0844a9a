// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <span>

#include "netns/plans/access.h"
#include "netns/plans/elements.h"
#include "netns/plans/home.h"

// Deals with changes that others made: RepairNetwork, WatchNetworks.
namespace mountd::netns {
namespace {

// Returns whether the host end exists and leads into `home`.
Result<bool> IsPairThere(Channel* route, const LinkFacts& link, int home) {
  if (link.index == 0) {
    return false;
  }
  return LeadsTo(route, link, home);
}

// Returns the index of the host end if somebody renamed it; 0 if there is none.
// The renamed link is recognised as the peer of the allocation's end.
Result<std::uint32_t> FindRenamed(Channel* route, const Veth& veth,
                                  Home* home) {
  MOUNTD_ASSIGN(const LinkFacts end, FindLink(&home->inside, veth.name));
  if (end.index == 0 || end.peer_index == 0) {
    return 0U;
  }
  MOUNTD_ASSIGN(const LinkFacts link, FindLink(route, end.peer_index));
  MOUNTD_ASSIGN(const bool there, IsPairThere(route, link, home->fd));
  return there && link.peer_index == end.index && link.alias == veth.object
             ? link.index
             : 0U;
}

// Renames the host end back if others renamed it, else makes a new pair.
// Returns the host end's index.
Result<std::uint32_t> RestoreLink(Channel* route, const Veth& veth, Home* home,
                                  std::uint32_t* repaired) {
  // A link of this name that leads elsewhere is left from another attempt.
  MOUNTD_TRY(DeleteLink(route, veth.host_name));
  MOUNTD_ASSIGN(const std::uint32_t renamed, FindRenamed(route, veth, home));
  if (renamed != 0) {
    MOUNTD_TRY(RenameLink(route, renamed, veth.host_name));
    return renamed;
  }
  exec::Undo undo;
  MOUNTD_ASSIGN(const std::uint32_t made,
                MakeLink(route, veth, home->fd, &home->inside, &undo));
  undo.Commit();
  *repaired |= exec::kRepairedLink;
  return made;
}

// Repairs the pair. Returns the host end's index.
Result<std::uint32_t> RepairPair(Channel* route, const Veth& veth,
                                 const LinkFacts& link, Home* home,
                                 std::uint32_t* repaired) {
  std::uint32_t index = link.index;
  MOUNTD_ASSIGN(const bool there, IsPairThere(route, link, home->fd));
  if (!there) {
    MOUNTD_ASSIGN(index, RestoreLink(route, veth, home, repaired));
  }
  if ((*repaired & exec::kRepairedLink) != 0) {
    return index;  // the whole pair is new
  }
  MOUNTD_ASSIGN(const bool right, IsHostEndRight(route, veth, index));
  if (!right) {
    MOUNTD_TRY(ConfigureHostEnd(route, veth, index, true));
    *repaired |= exec::kRepairedHostEnd;
  }
  MOUNTD_ASSIGN(const bool completed,
                CompleteAllocationEnd(&home->inside, veth));
  if (completed) {
    *repaired |= exec::kRepairedInside;
  }
  return index;
}

Error IsAnothers(const exec::NetworkPlan& plan) {
  return MakeError(Code::kFailedPrecondition, "repair network", NameOf(plan),
                   "the link of another allocation has its address; release "
                   "this allocation");
}

// FailedPrecondition if another link has the IPv6 address. The route tells,
// because no link's name says its IPv6 address.
Result<void> CheckIpv6IsOwn(Channel* route, const exec::NetworkPlan& plan,
                            const LinkFacts& link) {
  if (IsNone(plan.ipv6)) {
    return Ok();
  }
  MOUNTD_ASSIGN(const bool elsewhere,
                IsRoutedElsewhere(route, plan.ipv6, link.index));
  return elsewhere ? Result<void>(IsAnothers(plan)) : Ok();
}

}  // namespace

Result<exec::NetworkState> RepairNetwork(const Context& context,
                                         const exec::NetworkPlan& plan) {
  const std::string name = NameOf(plan);
  MOUNTD_TRY(exec::Locked(context.kernel, context.markers, name));
  MOUNTD_ASSIGN(Access access, OpenAccess(context, name));
  MOUNTD_ASSIGN(Home home, PinnedHome(context.kernel, plan, access.place));
  exec::NetworkState state{plan.netns_inode, 0, 1, 0};
  if (!HasAddress(plan)) {
    return state;
  }
  MOUNTD_ASSIGN(const NetworkConfig* declared, DeclaredFor(context, plan));
  const Veth veth = VethFor(plan, *declared);
  MOUNTD_ASSIGN(const LinkFacts link, FindLink(access.route, veth.host_name));
  if (IsOfAnother(link, plan)) {
    return IsAnothers(plan);
  }
  MOUNTD_TRY(CheckIpv6IsOwn(access.route, plan, link));
  MOUNTD_ASSIGN(state.host_ifindex,
                RepairPair(access.route, veth, link, &home, &state.repaired));
  bool some_missing = false;
  MOUNTD_TRY(CompleteElements(access.netfilter, ElementsOf(plan), name,
                              &some_missing));
  if (some_missing) {
    state.repaired |= exec::kRepairedElements;
  }
  return state;
}

Result<UniqueFd> WatchNetworks(const Context& context,
                               exec::NetworkWatchKind kind) {
  constexpr unsigned kLinkGroups[] = {RTNLGRP_LINK,        RTNLGRP_NEIGH,
                                      RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV4_ROUTE,
                                      RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV6_ROUTE};
  constexpr unsigned kRulesetGroups[] = {NFNLGRP_NFTABLES};
  const bool links = kind == exec::NetworkWatchKind::kLinks;
  MOUNTD_ASSIGN(UniqueFd socket,
                exec::Named(context.kernel.OpenNetlink(
                                links ? NETLINK_ROUTE : NETLINK_NETFILTER),
                            "socket", "netlink"));
  for (const unsigned group : links
                                  ? std::span<const unsigned>(kLinkGroups)
                                  : std::span<const unsigned>(kRulesetGroups)) {
    MOUNTD_TRY(exec::Named(context.kernel.Subscribe(socket.get(), group),
                           "NETLINK_ADD_MEMBERSHIP", "netlink"));
  }
  return socket;
}

}  // namespace mountd::netns
