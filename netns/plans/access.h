// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "netns/plans/network.h"
#include "netns/plans/pin.h"
#include "netns/plans/veth.h"

// The facts and sockets that every plan of one network needs.
namespace mountd::netns {

struct Access {
  UniqueFd directory;  // /run/netns
  PinPlace place;
  Channel* route;
  Channel* netfilter;
};

Result<Access> OpenAccess(const Context& context, const std::string& name);

std::string NameOf(const exec::NetworkPlan& plan);

// Returns the configuration of the plan's network. NotFound if none is
// declared.
Result<const NetworkConfig*> DeclaredFor(const Context& context,
                                         const exec::NetworkPlan& plan);

// Returns whether the link was made for another allocation that got the same
// address after this allocation's link was gone. Everything with that address
// as its key then belongs to the other allocation.
bool IsOfAnother(const LinkFacts& link, const exec::NetworkPlan& plan);

// Returns Busy, because the host end belongs to another allocation or to a
// namespace that the kernel is still removing.
Error LinkIsThere(const std::string& object);

// Makes the pair of links in `home` and configures both ends. Returns the host
// end's index. LinkIsThere if the host end's name is taken. AlreadyExists if
// the namespace has an interface of that name.
Result<std::uint32_t> MakeLink(Channel* route, const Veth& veth, int home,
                               Channel* inside, exec::Undo* undo);

}  // namespace mountd::netns
