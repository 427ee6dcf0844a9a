// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "netns/network.h"
#include "netns/pin.h"
#include "netns/veth.h"

// What every plan of one network works with.
namespace mountd::netns {

struct Access {
  UniqueFd directory;  // /run/netns
  PinPlace place;
  Channel* route;
  Channel* netfilter;
};

Result<Access> OpenAccess(const Context& context, const std::string& name);

std::string NameOf(const exec::NetworkPlan& plan);

// The configuration of the plan's network; NotFound.
Result<const NetworkConfig*> DeclaredFor(const Context& context,
                                         const exec::NetworkPlan& plan);

// True for a link that was made for another allocation with the same address,
// after this one's was gone: all that is keyed by the address is then that
// one's.
bool IsOfAnother(const LinkFacts& link, const exec::NetworkPlan& plan);

// Busy: the host end of another's, or of a namespace that is still dying.
Error LinkIsThere(const std::string& object);

// The pair and both ends of it, in `home`; the host end's index. LinkIsThere,
// or AlreadyExists for an interface in the namespace.
Result<std::uint32_t> MakeLink(Channel* route, const Veth& veth, int home,
                               Channel* inside, exec::Undo* undo);

}  // namespace mountd::netns
