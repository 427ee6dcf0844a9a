// SPDX-License-Identifier: LGPL-2.1-or-later
#include <optional>
#include <string>
#include <utility>

#include "agent/client.h"
#include "agent/client/client_impl.h"
#include "agent/client/dict_to_types.h"
#include "agent/client/types_to_dict.h"
#include "agent/fields/lease_fields.h"

namespace mountd::agent {

Result<Lease> Client::AcquireLease(std::string_view lease,
                                   const LeaseSpec& spec) {
  dbus::Dict sent;
  AddText(sent, "allocation", spec.allocation);
  AddText(sent, "scope", spec.scope);
  AddText(sent, "on_lapse", spec.keep ? "keep" : "");
  AddText(sent, "stop_tasks", spec.stop_tasks);
  if (spec.pipe >= 0) {
    sent.emplace("pipe", dbus::Value(sdbus::UnixFd(spec.pipe)));
  } else {
    sent.emplace("timeout_ms", dbus::Value(spec.timeout_ms));
  }
  const std::string name(lease);
  MOUNTD_ASSIGN(const dbus::Dict answer,
                impl_->Call("AcquireLease", name, std::move(sent),
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.AcquireLease(name, opts);
                            }));
  return FromDict<Lease>(answer);
}

Result<Lease> Client::RenewLease(std::string_view lease) {
  const std::string name(lease);
  MOUNTD_ASSIGN(const dbus::Dict answer,
                impl_->Call("RenewLease", name, {},
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.RenewLease(name, opts);
                            }));
  return FromDict<Lease>(answer);
}

Result<void> Client::ReleaseLease(std::string_view lease,
                                  std::optional<std::uint32_t> uid) {
  dbus::Dict sent;
  if (uid) {
    sent.emplace("uid", dbus::Value(*uid));
  }
  const std::string name(lease);
  return impl_->Call("ReleaseLease", name, std::move(sent),
                     [&](ManagerProxy& proxy, dbus::Dict& opts) {
                       proxy.ReleaseLease(name, opts);
                     });
}

Result<std::vector<Lease>> Client::ListLeases() {
  MOUNTD_ASSIGN(const auto answer,
                impl_->Call("ListLeases", "", impl_->ListOptions(),
                            [](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.ListLeases(opts);
                            }));
  return FromDicts<Lease>(answer);
}

Result<Fence> Client::GetFence(std::string_view allocation) {
  const std::string id(allocation);
  MOUNTD_ASSIGN(const dbus::Dict answer,
                impl_->Call("GetFence", id, {},
                            [&](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.GetFence(id, opts);
                            }));
  return FromDict<Fence>(answer);
}

}  // namespace mountd::agent
