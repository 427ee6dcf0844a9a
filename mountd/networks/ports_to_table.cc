// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/networks/ports_to_table.h"

#include "mountd/plan/protocols.h"

namespace mountd {

std::vector<netns::HostPorts> HostPortsOf(
    const std::vector<PortMapping>& ports) {
  std::vector<netns::HostPorts> all;
  for (const PortMapping& port : ports) {
    for (const auto& [bit, protocol] : exec::kProtocolNumbers) {
      if ((port.protocols & bit) != 0) {
        all.push_back(
            {protocol, port.host_port, port.count, port.host_address});
      }
    }
  }
  return all;
}

}  // namespace mountd
