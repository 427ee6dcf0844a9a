// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/plans/update_ports.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "mountd/plan/protocols.h"
#include "netns/plans/access.h"
#include "netns/plans/elements.h"
#include "netns/plans/forget_connections.h"
#include "netns/plans/free_ports.h"
#include "netns/plans/home.h"

namespace mountd::netns {
namespace {

using exec::NetworkPlan;
using exec::PortMap;

Error NotAsMade(const NetworkPlan& plan, const char* why) {
  return MakeError(Code::kFailedPrecondition, "update ports", NameOf(plan),
                   why);
}

// Checks that the link and its addresses are this network's.
Result<void> CheckIsOwn(const Context& context, Access* access,
                        const NetworkPlan& plan) {
  MOUNTD_ASSIGN(const Home home,
                PinnedHome(context.kernel, plan, access->place));
  MOUNTD_ASSIGN(const LinkFacts link,
                FindLink(access->route, LinkNameOf(plan)));
  const bool is_named = link.index != 0 && link.alias == NameOf(plan);
  MOUNTD_ASSIGN(const bool leads, is_named
                                      ? LeadsTo(access->route, link, home.fd)
                                      : Result<bool>(false));
  if (!leads) {
    return NotAsMade(plan, "its link is gone or another's; mountd repairs it");
  }
  MOUNTD_ASSIGN(
      const std::vector<bool> found,
      FindElements(access->netfilter, LinkElementsOf(plan), NameOf(plan)));
  return std::find(found.begin(), found.end(), false) == found.end()
             ? Ok()
             : Result<void>(
                   NotAsMade(plan,
                             "its addresses are not this link's in the table "
                             "inet mountd; mountd repairs it"));
}

// Returns the port maps among the elements of the plan.
std::vector<Element> MapsOf(const NetworkPlan& plan) {
  std::vector<Element> elements = ElementsOf(plan);
  std::erase_if(elements,
                [](const Element& one) { return one.host_port == 0; });
  return elements;
}

// If `there` is true, returns the elements that the table has; otherwise those
// that it lacks.
Result<std::vector<Element>> Those(Channel* nft, std::vector<Element> elements,
                                   bool there, const std::string& object) {
  MOUNTD_ASSIGN(const std::vector<bool> found,
                FindElements(nft, elements, object));
  std::vector<Element> some;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (found[i] == there) {
      some.push_back(elements[i]);
    }
  }
  return some;
}

// Returns the plan with only the protocols of ports that are not all mapped. So
// a socket that was bound later, or that keeps the port for the allocation, is
// no conflict with a port that the network already has. The maps `own` may lead
// to other ports of the container.
Result<NetworkPlan> OnlyNew(Channel* nft, const ElementKeys& own,
                            const NetworkPlan& plan) {
  NetworkPlan fresh = plan;
  const std::size_t count =
      std::min<std::size_t>(plan.port_count, plan.ports.size());
  for (std::size_t i = 0; i < count; ++i) {
    for (const auto& [bit, number] : exec::kProtocolNumbers) {
      NetworkPlan alone = plan;
      alone.port_count = 1;
      alone.ports[0] = plan.ports.at(i);
      alone.ports[0].protocols = bit;
      if ((plan.ports.at(i).protocols & bit) == 0) {
        continue;
      }
      MOUNTD_ASSIGN(std::vector<Element> missing,
                    Those(nft, MapsOf(alone), false, NameOf(plan)));
      std::erase_if(missing, [&](const Element& element) {
        return own.Has(element.set, element.key);
      });
      if (missing.empty()) {
        PortMap& port = fresh.ports.at(i);
        port.protocols = static_cast<std::uint8_t>(port.protocols & ~bit);
        port.if_free = static_cast<std::uint8_t>(port.if_free & ~bit);
      }
    }
  }
  return fresh;
}

struct Change {
  std::vector<Element> gone;
  std::vector<Element> added;
  // The old ports that must not stay. An update that was cut off may have
  // removed some of them already.
  std::vector<Element> forgotten;
};

// Returns the change to the maps of the plan from those that the network has,
// `own`, which are some of the `old` ones.
Result<Change> ChangeFor(Channel* nft, const std::vector<Element>& old,
                         const std::vector<Element>& own,
                         const NetworkPlan& wanted) {
  const std::vector<Element> all = MapsOf(wanted);
  const ElementKeys kept(all);
  const auto goes = [&](const Element& element) { return !kept.Has(element); };
  Change change;
  std::copy_if(own.begin(), own.end(), std::back_inserter(change.gone), goes);
  std::copy_if(old.begin(), old.end(), std::back_inserter(change.forgotten),
               goes);
  MOUNTD_ASSIGN(change.added, Those(nft, all, false, NameOf(wanted)));
  return change;
}

}  // namespace

Result<void> UpdatePorts(const Context& context, const exec::PortsPlan& plan,
                         const exec::Tell<exec::NetworkState>& tell) {
  NetworkPlan wanted = plan.network;
  const std::string name = NameOf(wanted);
  MOUNTD_TRY(exec::Locked(context.kernel, context.markers, name));
  MOUNTD_ASSIGN(Access access, OpenAccess(context, name));
  MOUNTD_TRY(CheckIsOwn(context, &access, wanted));
  exec::NetworkState state{wanted.netns_inode, 0, 1, 0};
  NetworkPlan before = wanted;
  before.port_count = plan.old_count;
  before.ports = plan.old_ports;
  const std::vector<Element> old = MapsOf(before);
  MOUNTD_ASSIGN(const std::vector<Element> own,
                Those(access.netfilter, old, true, name));
  const ElementKeys own_keys(own);
  MOUNTD_ASSIGN(NetworkPlan fresh, OnlyNew(access.netfilter, own_keys, wanted));
  MOUNTD_TRY(KeepFreePorts(context, access.netfilter, KeptSockets{}, own_keys,
                           &fresh, &state.unmapped));
  for (std::size_t i = 0; i < state.unmapped.size(); ++i) {
    PortMap& port = wanted.ports.at(i);
    port.protocols =
        static_cast<std::uint8_t>(port.protocols & ~state.unmapped.at(i));
  }
  MOUNTD_ASSIGN(const Change change,
                ChangeFor(access.netfilter, old, own, wanted));
  exec::Undo undo;
  if (!change.gone.empty() || !change.added.empty()) {
    MOUNTD_TRY(
        ChangeElements(access.netfilter, change.gone, change.added, name));
    undo.Add([&] {
      IgnoreBecauseBestEffort(
          ChangeElements(access.netfilter, change.added, change.gone, name));
    });
  }
  // Tell before the commit. If mountd no longer takes the answer, the undo
  // restores the old ports, and mountd then finds these when it compares the
  // network with its record.
  MOUNTD_TRY(tell(state));
  undo.Commit();
  ForgetConnections(context, &access, change.forgotten, wanted);
  return Ok();
}

}  // namespace mountd::netns
