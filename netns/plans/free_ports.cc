// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/plans/free_ports.h"

#include <algorithm>
#include <string>
#include <vector>

#include "mountd/plan/protocols.h"
#include "netns/plans/access.h"
#include "netns/plans/elements.h"

namespace mountd::netns {
namespace {

using exec::NetworkPlan;
using exec::PortMap;

// Returns the port maps of one port of the plan and one protocol.
std::vector<Element> MapsOf(const NetworkPlan& plan, const PortMap& port,
                            std::uint8_t protocol) {
  NetworkPlan alone = plan;
  alone.port_count = 1;
  alone.ports[0] = port;
  alone.ports[0].protocols = protocol;
  std::vector<Element> elements = ElementsOf(alone);
  std::erase_if(elements,
                [](const Element& one) { return one.host_port == 0; });
  return elements;
}

// Calls `is_kept` for each protocol that is mapped only if it is free, and
// removes the protocols for which `is_kept` returns false.
template <typename IsKept>
Result<void> KeepSome(NetworkPlan* plan, Unmapped* unmapped,
                      const IsKept& is_kept) {
  const std::size_t count =
      std::min<std::size_t>(plan->port_count, plan->ports.size());
  for (std::size_t i = 0; i < count; ++i) {
    PortMap& port = plan->ports.at(i);
    for (const auto& [bit, number] : exec::kProtocolNumbers) {
      if ((port.if_free & port.protocols & bit) == 0) {
        continue;
      }
      MOUNTD_ASSIGN(const bool kept, is_kept(i, port, bit));
      if (!kept) {
        port.protocols = static_cast<std::uint8_t>(port.protocols & ~bit);
        unmapped->at(i) = static_cast<std::uint8_t>(unmapped->at(i) | bit);
      }
    }
  }
  return Ok();
}

Result<bool> IsAnyThere(Channel* nft, const std::vector<Element>& elements,
                        const NetworkPlan& plan) {
  MOUNTD_ASSIGN(const std::vector<bool> found,
                FindElements(nft, elements, NameOf(plan)));
  return std::find(found.begin(), found.end(), true) != found.end();
}

}  // namespace

Result<void> KeepMappedPorts(Channel* nft, NetworkPlan* plan,
                             Unmapped* unmapped) {
  // If only some of the elements are there, the protocol stays in the plan, so
  // that the network does not count as whole.
  return KeepSome(plan, unmapped,
                  [&](std::size_t, const PortMap& port, std::uint8_t bit) {
                    return IsAnyThere(nft, MapsOf(*plan, port, bit), *plan);
                  });
}

Result<void> KeepFreePorts(const Context& context, Channel* nft,
                           const KeptSockets& kept, const ElementKeys& own,
                           NetworkPlan* plan, Unmapped* unmapped) {
  Unmapped listened{};
  MOUNTD_TRY(CheckHostPorts(context, *plan, kept, &listened));
  return KeepSome(plan, unmapped,
                  [&](std::size_t i, const PortMap& port,
                      std::uint8_t bit) -> Result<bool> {
                    if ((listened.at(i) & bit) != 0) {
                      return false;
                    }
                    std::vector<Element> elements = MapsOf(*plan, port, bit);
                    std::erase_if(elements, [&](const Element& element) {
                      return own.Has(element.set, element.key);
                    });
                    for (Element& element : elements) {
                      // Without data any map of the port counts, whoever made
                      // it.
                      element.data = {};
                    }
                    MOUNTD_ASSIGN(const bool taken,
                                  IsAnyThere(nft, elements, *plan));
                    return !taken;
                  });
}

}  // namespace mountd::netns
