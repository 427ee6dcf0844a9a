// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <span>

#include "netns/access.h"
#include "netns/elements.h"
#include "netns/home.h"

// What is done about changes that others made: RepairNetwork, WatchNetworks.
namespace mountd::netns {
namespace {

// True if the host end is there and leads into `home`.
Result<bool> IsPairThere(Channel* route, const LinkFacts& link, int home) {
  if (link.index == 0) {
    return false;
  }
  return LeadsTo(route, link, home);
}

Result<void> RepairPair(Access* access, const Veth& veth, const LinkFacts& link,
                        Home* home, std::uint32_t* repaired) {
  MOUNTD_ASSIGN(const bool there, IsPairThere(access->route, link, home->fd));
  if (!there) {
    // One of the name that leads elsewhere is what is left of another try.
    MOUNTD_TRY(DeleteLink(access->route, veth.host_name));
    exec::Undo undo;
    MOUNTD_TRY(MakeLink(access->route, veth, home->fd, &home->inside, &undo));
    undo.Commit();
    *repaired |= exec::kRepairedLink;
    return Ok();
  }
  MOUNTD_ASSIGN(const bool right,
                IsHostEndRight(access->route, veth, link.index));
  if (!right) {
    MOUNTD_TRY(ConfigureHostEnd(access->route, veth, link.index, true));
    *repaired |= exec::kRepairedHostEnd;
  }
  MOUNTD_ASSIGN(const bool completed,
                CompleteAllocationEnd(&home->inside, veth));
  if (completed) {
    *repaired |= exec::kRepairedInside;
  }
  return Ok();
}

}  // namespace

Result<exec::NetworkState> RepairNetwork(const Context& context,
                                         const exec::NetworkPlan& plan) {
  const std::string name = NameOf(plan);
  MOUNTD_TRY(exec::Locked(context.kernel, context.markers, name));
  MOUNTD_ASSIGN(Access access, OpenAccess(context, name));
  MOUNTD_ASSIGN(Home home, PinnedHome(context.kernel, plan, access.place));
  std::uint32_t repaired = 0;
  if (!IsNone(plan.ipv4)) {
    MOUNTD_ASSIGN(const NetworkConfig* declared, DeclaredFor(context, plan));
    const Veth veth = VethFor(plan, *declared);
    MOUNTD_ASSIGN(const LinkFacts link, FindLink(access.route, veth.host_name));
    if (IsOfAnother(link, plan)) {
      return MakeError(Code::kFailedPrecondition, "repair network", name,
                       "its address is another allocation's link's");
    }
    MOUNTD_TRY(RepairPair(&access, veth, link, &home, &repaired));
    bool some_missing = false;
    MOUNTD_TRY(CompleteElements(access.netfilter, ElementsOf(plan), name,
                                &some_missing));
    if (some_missing) {
      repaired |= exec::kRepairedElements;
    }
  }
  MOUNTD_ASSIGN(exec::NetworkState state, Inspect(context, &access, plan));
  state.repaired = repaired;
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
