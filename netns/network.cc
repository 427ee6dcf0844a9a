// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/network.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/openat2.h>

#include <algorithm>

#include "netns/elements.h"
#include "netns/pin.h"
#include "netns/ruleset.h"
#include "netns/veth.h"

namespace mountd::netns {
namespace {

using exec::Named;
using exec::NetworkPlan;
using exec::NetworkState;

// What every plan of one network works with.
struct Access {
  UniqueFd directory;  // /run/netns
  PinPlace place;
  Channel* route;
  Channel* netfilter;
};

Result<Access> OpenAccess(const Context& context, const std::string& name) {
  MOUNTD_ASSIGN(UniqueFd directory, OpenNetnsDirectory(context.kernel));
  Sockets& sockets = context.sockets;
  if (!sockets.route) {
    MOUNTD_ASSIGN(sockets.route, Channel::Open(context.kernel, NETLINK_ROUTE));
  }
  if (!sockets.netfilter) {
    MOUNTD_ASSIGN(sockets.netfilter,
                  Channel::Open(context.kernel, NETLINK_NETFILTER));
  }
  PinPlace place{directory.get(), context.markers, name};
  return Access{std::move(directory), std::move(place), &*sockets.route,
                &*sockets.netfilter};
}

Result<void> EnableForwarding(exec::Kernel& kernel) {
  for (const char* path : {"/proc/sys/net/ipv4/ip_forward",
                           "/proc/sys/net/ipv6/conf/all/forwarding"}) {
    MOUNTD_ASSIGN(const std::string now,
                  Named(kernel.ReadSetting(path), "read", path));
    if (now != "1") {
      MOUNTD_TRY(Named(kernel.WriteSetting(path, "1"), "write", path));
    }
  }
  return Ok();
}

std::string NameOf(const NetworkPlan& plan) {
  return std::string(plan.allocation.view());
}

// True for a link that was made for another allocation with the same address,
// after this one's was gone: all that is keyed by the address is then that
// one's.
bool IsOfAnother(const LinkFacts& link, const NetworkPlan& plan) {
  return link.index != 0 && !link.alias.empty() && link.alias != NameOf(plan);
}

Result<NetworkState> Inspect(const Context& context, Access* access,
                             const NetworkPlan& plan) {
  const std::string link_name = HostLinkName(plan.ipv4);
  NetworkState state;
  MOUNTD_ASSIGN(const Pin pin, FindPin(context.kernel, access->place));
  state.netns_inode = pin.inode;
  MOUNTD_ASSIGN(const LinkFacts link, FindLink(access->route, link_name));
  if (IsOfAnother(link, plan)) {
    return state;
  }
  state.host_ifindex = link.index;
  MOUNTD_ASSIGN(const std::vector<bool> found,
                FindElements(access->netfilter, ElementsOf(plan, link_name),
                             NameOf(plan)));
  state.elements_present =
      std::find(found.begin(), found.end(), false) == found.end() ? 1 : 0;
  return state;
}

// True if `now` is what the plan would make, of an earlier try of it.
Result<bool> IsMade(const Context& context, Access* access,
                    const NetworkPlan& plan, const NetworkState& now) {
  if (now.netns_inode == 0 || now.host_ifindex == 0 ||
      now.elements_present == 0) {
    return false;
  }
  MOUNTD_ASSIGN(
      const UniqueFd netns,
      Named(context.kernel.Open(access->directory.get(), NameOf(plan), O_RDONLY,
                                RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS),
            "openat2", NameOf(plan)));
  MOUNTD_ASSIGN(const LinkFacts link,
                FindLink(access->route, HostLinkName(plan.ipv4)));
  return LeadsTo(access->route, link, netns.get());
}

Result<void> CheckNameIsFree(const Context& context, const Access& access) {
  MOUNTD_ASSIGN(const Pin pin, FindPin(context.kernel, access.place));
  if (!pin.exists && !pin.marked) {
    return Ok();
  }
  return MakeError(Code::kFailedPrecondition, "create network",
                   access.place.name,
                   pin.ours         ? "an interrupted plan's is there"
                   : pin.inode != 0 ? "another network namespace has the name"
                                    : "a file has the name");
}

Result<void> MakeNetwork(const Context& context, Access* access,
                         const NetworkPlan& plan, const Veth& veth,
                         exec::Undo* undo) {
  MOUNTD_ASSIGN(exec::NetNamespace made, Named(context.kernel.NewNetNamespace(),
                                               "unshare", veth.object));
  Channel inside(context.kernel, std::move(made.route));
  MOUNTD_TRY(CreateVeth(access->route, veth, made.fd.get()));
  undo->Add([access, &veth] {
    IgnoreBecauseBestEffort(DeleteLink(access->route, veth.host_name));
  });
  MOUNTD_TRY(ConfigureHostEnd(access->route, veth));
  MOUNTD_TRY(ConfigureAllocationEnd(&inside, veth));
  MOUNTD_TRY(MakePin(context.kernel, access->place, made.fd.get(), undo));
  // Last, so that a mapped port leads to a network that is up. If the answer is
  // lost they may be there all the same.
  const std::vector<Element> elements = ElementsOf(plan, veth.host_name);
  undo->Add([access, elements, &veth] {
    IgnoreBecauseBestEffort(
        DeleteElements(access->netfilter, elements, veth.object));
  });
  MOUNTD_TRY(AddElements(access->netfilter, elements, veth.object));
  return Ok();
}

}  // namespace

Result<void> PrepareNetworks(const Context& context) {
  MOUNTD_TRY(PrepareNetnsDirectory(context.kernel));
  MOUNTD_ASSIGN(Access access, OpenAccess(context, ""));
  MOUNTD_TRY(PrepareRuleset(context.kernel, access.netfilter, context.config));
  MOUNTD_TRY(EnableForwarding(context.kernel));
  for (const auto& [name, network] : context.config.networks) {
    MOUNTD_TRY(AddHostAddresses(access.route, network, name));
  }
  return Ok();
}

Result<void> CreateNetwork(const Context& context, const NetworkPlan& plan,
                           const exec::Tell<NetworkState>& tell) {
  const auto declared =
      context.config.networks.find(std::string(plan.network.view()));
  if (declared == context.config.networks.end()) {
    return MakeError(Code::kNotFound, "create network", NameOf(plan),
                     "no such network");
  }
  const Veth veth = VethFor(plan, declared->second);
  MOUNTD_TRY(exec::Locked(context.kernel, context.markers, veth.object));
  MOUNTD_ASSIGN(Access access, OpenAccess(context, veth.object));
  MOUNTD_ASSIGN(const NetworkState now, Inspect(context, &access, plan));
  MOUNTD_ASSIGN(const bool made, IsMade(context, &access, plan, now));
  if (made) {
    return tell(now);
  }
  MOUNTD_TRY(CheckNameIsFree(context, access));
  MOUNTD_ASSIGN(const LinkFacts link, FindLink(access.route, veth.host_name));
  if (link.index != 0) {
    return MakeError(Code::kBusy, "create network", veth.object,
                     "a link of the address is still there");
  }
  exec::Undo undo;
  MOUNTD_TRY(MakeNetwork(context, &access, plan, veth, &undo));
  MOUNTD_ASSIGN(const NetworkState state, Inspect(context, &access, plan));
  if (state.netns_inode == 0 || state.host_ifindex == 0 ||
      state.elements_present == 0) {
    return MakeError(Code::kAborted, "create network", veth.object,
                     "a part of it was taken away meanwhile");
  }
  MOUNTD_TRY(tell(state));
  undo.Commit();
  return Ok();
}

Result<void> DeleteNetwork(const Context& context, const NetworkPlan& plan) {
  const std::string name = NameOf(plan);
  const std::string link_name = HostLinkName(plan.ipv4);
  MOUNTD_TRY(exec::Locked(context.kernel, context.markers, name));
  MOUNTD_ASSIGN(Access access, OpenAccess(context, name));
  MOUNTD_ASSIGN(const Pin pin, FindPin(context.kernel, access.place));
  MOUNTD_ASSIGN(const LinkFacts link, FindLink(access.route, link_name));
  const bool address_is_ours = !IsOfAnother(link, plan);
  if (address_is_ours) {
    MOUNTD_TRY(
        DeleteElements(access.netfilter, ElementsOf(plan, link_name), name));
  }
  if (address_is_ours && (pin.marked || link.alias == name)) {
    // Only with a proof: the plan's address might be anybody's.
    FlushConnections(access.netfilter, plan.ipv4, plan.ipv6);
  }
  const bool foreign = pin.inode != 0 && plan.netns_inode != 0 &&
                       (!pin.ours || pin.inode != plan.netns_inode);
  if (!foreign || !pin.ours) {
    MOUNTD_TRY(RemovePin(context.kernel, access.place, pin));
  }
  const bool unpinned = pin.ours && pin.inode != 0 && !foreign;
  if (address_is_ours && link.index != 0 && !unpinned) {
    // The namespace lost its name before, and something else holds it.
    MOUNTD_TRY(DeleteLink(access.route, link_name));
  }
  if (foreign) {
    return MakeError(Code::kFailedPrecondition, "delete network", name,
                     "another network namespace has the name");
  }
  return Ok();
}

Result<NetworkState> InspectNetwork(const Context& context,
                                    const NetworkPlan& plan) {
  MOUNTD_ASSIGN(Access access, OpenAccess(context, NameOf(plan)));
  return Inspect(context, &access, plan);
}

}  // namespace mountd::netns
