// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/plans/access.h"

#include <linux/netlink.h>

#include <cerrno>

namespace mountd::netns {

using exec::NetworkPlan;

Result<Access> OpenAccess(const Context& context, const std::string& name) {
  MOUNTD_ASSIGN(UniqueFd directory, OpenNetnsDirectory(context.kernel));
  Kept& kept = context.kept;
  if (!kept.route) {
    MOUNTD_ASSIGN(kept.route, Channel::Open(context.kernel, NETLINK_ROUTE));
  }
  if (!kept.netfilter) {
    MOUNTD_ASSIGN(kept.netfilter,
                  Channel::Open(context.kernel, NETLINK_NETFILTER));
  }
  if (kept.nsfs == 0) {
    MOUNTD_ASSIGN(kept.nsfs, NsfsDevice(context.kernel));
  }
  PinPlace place{directory.get(), context.markers, kept.nsfs, name};
  return Access{std::move(directory), std::move(place), &*kept.route,
                &*kept.netfilter};
}

std::string NameOf(const NetworkPlan& plan) {
  return std::string(plan.allocation.view());
}

Result<const NetworkConfig*> DeclaredFor(const Context& context,
                                         const NetworkPlan& plan) {
  const auto declared =
      context.config.networks.find(std::string(plan.network.view()));
  if (declared == context.config.networks.end()) {
    return MakeError(Code::kNotFound, "find network", NameOf(plan),
                     "the network does not exist");
  }
  return &declared->second;
}

bool IsOfAnother(const LinkFacts& link, const NetworkPlan& plan) {
  return link.index != 0 && !link.alias.empty() && link.alias != NameOf(plan);
}

Error LinkIsThere(const std::string& object) {
  return MakeError(
      Code::kBusy, "create network", object,
      "an earlier link with this address still exists; call again");
}

Result<std::uint32_t> MakeLink(Channel* route, const Veth& veth, int home,
                               Channel* inside, exec::Undo* undo) {
  const Result<VethIndexes> made = CreateVeth(route, veth, home);
  if (!made && made.error().sys_errno == EEXIST) {
    // EEXIST does not say whether the host end's name or the interface's name
    // is taken.
    MOUNTD_ASSIGN(const LinkFacts link, FindLink(route, veth.host_name));
    return link.index != 0 ? LinkIsThere(veth.object)
                           : ErrnoError(EEXIST, "RTM_NEWLINK", veth.object,
                                        veth.name +
                                            " already exists in the namespace; "
                                            "choose another interface name");
  }
  // Undo also after an error, because only the answer may have been lost.
  undo->Add([route, &veth] {
    IgnoreBecauseBestEffort(DeleteLink(route, veth.host_name));
  });
  if (!made) {
    return made.error();
  }
  MOUNTD_TRY(ConfigureHostEnd(route, veth, made->host));
  MOUNTD_TRY(ConfigureAllocationEnd(inside, veth, made->allocation));
  MOUNTD_TRY(AwaitCarrier(route, veth, made->host));
  return made->host;
}

}  // namespace mountd::netns
