// SPDX-License-Identifier: LGPL-2.1-or-later
#include <string>
#include <utility>
#include <vector>

#include "agent/client.h"
#include "agent/client/client_impl.h"
#include "agent/client/dict_to_types.h"
#include "agent/client/types_to_dict.h"
#include "agent/fields/network_fields.h"

namespace mountd::agent {

Result<NetworkStatus> Client::GetNetwork(std::string_view allocation,
                                         std::string_view interface) {
  const std::string id(allocation);
  dbus::Dict sent;
  AddText(sent, "interface", std::string(interface));
  MOUNTD_ASSIGN(const dbus::Dict answer,
                impl_->Call("GetNetwork", id, std::move(sent),
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.GetNetwork(id, opts);
                            }));
  return FromDict<NetworkStatus>(answer);
}

Result<UniqueFd> Client::OpenNamespace(std::string_view allocation,
                                       std::string_view interface) {
  const std::string id(allocation);
  dbus::Dict sent = {{"netns_fd", dbus::Value(true)}};
  AddText(sent, "interface", std::string(interface));
  MOUNTD_ASSIGN(const dbus::Dict answer,
                impl_->Call("GetNetwork", id, std::move(sent),
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.GetNetwork(id, opts);
                            }));
  sdbus::UnixFd netns;
  MOUNTD_TRY(ReadKey(answer, "netns", netns));
  return netns.isValid() ? Result<UniqueFd>(UniqueFd(netns.release()))
                         : MakeError(Code::kInternal, "answer", "netns",
                                     "is missing from mountd's answer");
}

Result<NetworkStatus> Client::UpdatePorts(std::string_view allocation,
                                          const std::vector<Port>& ports,
                                          std::string_view interface) {
  const std::string id(allocation);
  const auto rows = ToRows(ports);
  dbus::Dict sent;
  AddText(sent, "interface", std::string(interface));
  MOUNTD_ASSIGN(const dbus::Dict answer,
                impl_->Call("UpdatePorts", id, std::move(sent),
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.UpdatePorts(id, rows, opts);
                            }));
  return FromDict<NetworkStatus>(answer);
}

}  // namespace mountd::agent
