// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/plans/network.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/openat2.h>

#include <algorithm>

#include "netns/plans/access.h"
#include "netns/plans/elements.h"
#include "netns/plans/forget_connections.h"
#include "netns/plans/forward_rules.h"
#include "netns/plans/free_ports.h"
#include "netns/plans/home.h"
#include "netns/plans/ruleset.h"

namespace mountd::netns {
namespace {

using exec::Named;
using exec::NetworkPlan;
using exec::NetworkState;

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

// Opens sock_diag before the first port map needs it. Ignores a failure,
// because FindHostSockets can read /proc/net.
void OpenSocketDiagAhead(const Context& context) {
  if (context.kept.sockets) {
    return;
  }
  Result<Channel> diag = Channel::Open(context.kernel, NETLINK_SOCK_DIAG);
  if (diag) {
    context.kept.sockets = *std::move(diag);
  }
}

// The kernel's state before a plan makes its network.
struct Before {
  Pin pin;
  LinkFacts link;
};

// Looks for what an earlier attempt left. Without a pin of ours there was no
// such attempt, and the kernel refuses to make a second link of the same name
// anyway.
Result<Before> LookBefore(const Context& context, Access* access,
                          const NetworkPlan& plan) {
  Before before;
  MOUNTD_ASSIGN(before.pin, FindPin(context.kernel, access->place));
  if (before.pin.ours && HasAddress(plan)) {
    MOUNTD_ASSIGN(before.link, FindLink(access->route, LinkNameOf(plan)));
  }
  return before;
}

// Returns whether everything that the plan would make is there, from an earlier
// attempt.
Result<bool> IsMade(const Context& context, Access* access,
                    const NetworkPlan& plan, const Before& before) {
  if (before.pin.inode == 0 || !before.pin.ours) {
    return false;
  }
  if (plan.origin == exec::NamespaceOrigin::kGiven &&
      before.pin.inode != plan.netns_inode) {
    return false;  // another namespace was given then
  }
  if (!HasAddress(plan)) {
    return true;
  }
  if (before.link.index == 0 || IsOfAnother(before.link, plan)) {
    return false;
  }
  // The link may lead into a namespace of an earlier attempt.
  MOUNTD_ASSIGN(
      const UniqueFd netns,
      Named(context.kernel.Open(access->directory.get(), NameOf(plan), O_RDONLY,
                                RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS),
            "openat2", NameOf(plan)));
  MOUNTD_ASSIGN(const bool leads,
                LeadsTo(access->route, before.link, netns.get()));
  if (!leads) {
    return false;
  }
  MOUNTD_ASSIGN(
      const std::vector<bool> found,
      FindElements(access->netfilter, ElementsOf(plan), NameOf(plan)));
  return std::find(found.begin(), found.end(), false) == found.end();
}

Result<void> CheckNameIsFree(const Pin& pin, const std::string& name) {
  if (!pin.exists && !pin.marked) {
    return Ok();
  }
  return MakeError(
      Code::kFailedPrecondition, "create network", name,
      pin.ours
          ? "a network of an interrupted plan still exists; tear it down first"
      : pin.inode != 0 ? "another network namespace has this name"
                       : "a file has this name; remove it");
}

bool SomeRuleAllowsHostNamespaces(const Config& config) {
  return std::any_of(
      config.rules.begin(), config.rules.end(),
      [](const RuleConfig& rule) { return rule.host_namespaces; });
}

Result<Home> HomeFor(const Context& context, const Access& access,
                     const NetworkPlan& plan, int given) {
  switch (plan.origin) {
    case exec::NamespaceOrigin::kGiven:
      return GivenHome(context.kernel, plan, access.place, given,
                       plan.may_be_hosts != 0 &&
                           SomeRuleAllowsHostNamespaces(context.config));
    case exec::NamespaceOrigin::kExisting:
      return PinnedHome(context.kernel, plan, access.place);
    case exec::NamespaceOrigin::kNew:
      break;
  }
  return NewHome(context.kernel, &context.kept.pool);
}

Result<void> CheckIsFree(const NetworkPlan& plan, const Before& before) {
  if (plan.origin != exec::NamespaceOrigin::kExisting) {
    MOUNTD_TRY(CheckNameIsFree(before.pin, NameOf(plan)));
  }
  return before.link.index == 0 ? Ok()
                                : Result<void>(LinkIsThere(NameOf(plan)));
}

// Raises lo in the caller's namespace. In a new namespace lo is down, and
// 127.0.0.1 and ::1 are missing. lo stays up when the network goes, because
// tasks may use it.
Result<void> RaiseGivenLoopback(Channel* inside, const std::string& name,
                                exec::Undo* undo) {
  MOUNTD_ASSIGN(const bool up, IsLoopbackUp(inside));
  if (up) {
    return Ok();
  }
  undo->Add(
      [inside, name] { IgnoreBecauseBestEffort(LowerLoopback(inside, name)); });
  return RaiseLoopback(inside, name);
}

// Adds the elements. The elements come last, so that a mapped port leads to a
// network that is up. Undo removes them only if this plan added them, because
// the kernel refuses elements that were there before.
Result<void> MakeElements(Access* access, const NetworkPlan& plan,
                          exec::Undo* undo) {
  MOUNTD_TRY(AddElements(access->netfilter, ElementsOf(plan), NameOf(plan)));
  undo->Add([access, &plan] {
    IgnoreBecauseBestEffort(
        DeleteElements(access->netfilter, ElementsOf(plan), NameOf(plan)));
  });
  return Ok();
}

// Makes the network. The returned state holds only facts that the kernel has
// acknowledged.
Result<NetworkState> MakeNetwork(const Context& context, Access* access,
                                 const NetworkPlan& plan, const Veth& veth,
                                 Home* home, exec::Undo* undo) {
  NetworkState state;
  state.elements_present = 1;
  if (HasAddress(plan)) {
    MOUNTD_ASSIGN(state.host_ifindex,
                  MakeLink(access->route, veth, home->fd, &home->inside, undo));
  }
  if (plan.origin != exec::NamespaceOrigin::kExisting) {
    MOUNTD_TRY(MakePin(context.kernel, access->place, home->fd, undo));
  }
  if (HasAddress(plan)) {
    MOUNTD_TRY(MakeElements(access, plan, undo));
  }
  // Look again, because another process of root's may have removed the name.
  MOUNTD_ASSIGN(const Pin pin, FindPin(context.kernel, access->place));
  if (pin.inode == 0 || !pin.ours) {
    return MakeError(
        Code::kAborted, "create network", NameOf(plan),
        "another program removed its name during the call; call again");
  }
  state.netns_inode = pin.inode;
  return state;
}

// Returns the plan, without the IPv6 address if that is another allocation's by
// now. Its elements then do not count as this plan's.
Result<NetworkPlan> WithOwnAddresses(Access* access, NetworkPlan plan,
                                     const LinkFacts& link) {
  if (!IsNone(plan.ipv6)) {
    MOUNTD_ASSIGN(const bool elsewhere,
                  IsRoutedElsewhere(access->route, plan.ipv6, link.index));
    plan.ipv6 = elsewhere ? Ipv6{} : plan.ipv6;
  }
  return plan;
}

// Deletes everything with the plan's addresses as its key, except the link.
Result<void> DeleteAddressed(const Context& context, Access* access,
                             const NetworkPlan& asked, const Pin& pin,
                             const LinkFacts& link) {
  if (!HasAddress(asked) || IsOfAnother(link, asked)) {
    return Ok();
  }
  MOUNTD_ASSIGN(const NetworkPlan plan, WithOwnAddresses(access, asked, link));
  const std::string name = NameOf(plan);
  MOUNTD_TRY(DeleteElements(
      access->netfilter,
      HasAddress(plan) ? ElementsOf(plan) : LinkElementsOf(asked), name));
  if (HasAddress(plan) && (pin.marked || link.alias == name)) {
    // Flush only if a marker or alias proves that this allocation has the
    // address.
    ForgetConnectionsOf(context, access, plan);
  }
  return Ok();
}

}  // namespace

Result<void> PrepareNetworks(const Context& context, bool anew) {
  MOUNTD_TRY(PrepareNetnsDirectory(context.kernel));
  context.kept.pool.Start();
  if (context.config.networks.empty()) {
    return Ok();  // only namespaces: none of their packets reaches the host
  }
  MOUNTD_ASSIGN(Access access, OpenAccess(context, ""));
  MOUNTD_TRY(
      PrepareRuleset(context.kernel, access.netfilter, context.config, anew));
  MOUNTD_TRY(PrepareForwardRules(context.kernel, access.netfilter,
                                 context.config.firewall.forward_rules));
  MOUNTD_TRY(EnableForwarding(context.kernel));
  for (const auto& [name, network] : context.config.networks) {
    MOUNTD_TRY(AddHostAddresses(access.route, network, name));
  }
  OpenSocketDiagAhead(context);
  return Ok();
}

Result<void> CreateNetwork(const Context& context, const NetworkPlan& asked,
                           const Passed& passed,
                           const exec::Tell<NetworkState>& tell) {
  NetworkPlan plan = asked;  // loses ports that are mapped only if free
  Unmapped unmapped{};
  Veth veth;
  if (HasAddress(plan)) {
    MOUNTD_ASSIGN(const NetworkConfig* declared, DeclaredFor(context, plan));
    veth = VethFor(plan, *declared);
  }
  const std::string name = NameOf(plan);
  // With the lock, a plan that mountd gave up ends before this plan looks. So
  // it cannot undo the links and elements that this plan makes
  // (Context::markers).
  MOUNTD_TRY(exec::Locked(context.kernel, context.markers, name));
  MOUNTD_ASSIGN(Access access, OpenAccess(context, name));
  MOUNTD_ASSIGN(const Before before, LookBefore(context, &access, plan));
  if (before.link.index != 0) {
    MOUNTD_TRY(KeepMappedPorts(access.netfilter, &plan, &unmapped));
  }
  MOUNTD_ASSIGN(const bool made, IsMade(context, &access, plan, before));
  if (made) {
    return tell({before.pin.inode, before.link.index, 1, 0, unmapped});
  }
  MOUNTD_TRY(CheckIsFree(plan, before));
  // Look before the plan makes anything, so that there is nothing to undo if a
  // port is taken.
  plan = asked;
  unmapped = {};
  MOUNTD_TRY(KeepFreePorts(context, access.netfilter, passed.kept, {}, &plan,
                           &unmapped));
  // `home` closes after the answer, so that the caller does not wait for that.
  MOUNTD_ASSIGN(Home home, HomeFor(context, access, plan, passed.netns));
  exec::Undo undo;
  if (plan.origin == exec::NamespaceOrigin::kGiven) {
    MOUNTD_TRY(RaiseGivenLoopback(&home.inside, name, &undo));
  }
  MOUNTD_ASSIGN(NetworkState state,
                MakeNetwork(context, &access, plan, veth, &home, &undo));
  state.unmapped = unmapped;
  // Tell before the commit. If mountd no longer takes the answer, it has no
  // record of the network, so the undo has to remove it.
  MOUNTD_TRY(tell(state));
  undo.Commit();
  return Ok();
}

Result<void> DeleteNetwork(const Context& context, const NetworkPlan& plan) {
  const std::string name = NameOf(plan);
  MOUNTD_TRY(exec::Locked(context.kernel, context.markers, name));
  MOUNTD_ASSIGN(Access access, OpenAccess(context, name));
  MOUNTD_ASSIGN(const Pin pin, FindPin(context.kernel, access.place));
  LinkFacts link;
  if (HasAddress(plan)) {
    MOUNTD_ASSIGN(link, FindLink(access.route, LinkNameOf(plan)));
  }
  // Delete elements first, so that no port leads to a network that is being
  // removed.
  MOUNTD_TRY(DeleteAddressed(context, &access, plan, pin, link));
  const bool keeps_name = plan.origin == exec::NamespaceOrigin::kExisting;
  const bool foreign = !keeps_name && pin.inode != 0 && plan.netns_inode != 0 &&
                       (!pin.ours || pin.inode != plan.netns_inode);
  // If the name is another program's, RemovePin removes only the marker.
  if (!keeps_name && (!foreign || !pin.ours)) {
    MOUNTD_TRY(RemovePin(context.kernel, access.place, pin));
  }
  const bool link_dies = plan.origin == exec::NamespaceOrigin::kNew &&
                         pin.ours && pin.inode != 0 && !foreign;
  if (link.index != 0 && !IsOfAnother(link, plan) && !link_dies) {
    // Delete the link itself, because the namespace stays, or because it lost
    // its name earlier and a process keeps it.
    MOUNTD_TRY(DeleteLink(access.route, LinkNameOf(plan)));
  }
  if (foreign) {
    return MakeError(Code::kFailedPrecondition, "delete network", name,
                     "another network namespace has this name");
  }
  return Ok();
}

Result<NetworkState> InspectNetwork(const Context& context,
                                    const NetworkPlan& plan) {
  MOUNTD_ASSIGN(Access access, OpenAccess(context, NameOf(plan)));
  NetworkState state;
  MOUNTD_ASSIGN(const Pin pin, FindPin(context.kernel, access.place));
  state.netns_inode = pin.inode;
  if (!HasAddress(plan)) {
    state.elements_present = 1;  // it has none
    return state;
  }
  MOUNTD_ASSIGN(const LinkFacts link, FindLink(access.route, LinkNameOf(plan)));
  if (IsOfAnother(link, plan)) {
    return state;
  }
  state.host_ifindex = link.index;
  if (link.index == 0) {
    // Without a link there are no elements: they are added after it and removed
    // before it.
    return state;
  }
  MOUNTD_ASSIGN(const std::vector<bool> found,
                FindElements(access.netfilter, ElementsOf(plan), NameOf(plan)));
  state.elements_present =
      std::find(found.begin(), found.end(), false) == found.end() ? 1 : 0;
  return state;
}

bool MakeAhead(const Context& context) {
  NamespacePool& pool = context.kept.pool;
  // Ignore a failure: the plan that needs a namespace makes one and reports the
  // error.
  return pool.WantsMore() && pool.Add(context.kernel).has_value();
}

}  // namespace mountd::netns
