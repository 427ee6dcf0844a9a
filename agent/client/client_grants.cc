// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/client.h"
#include "agent/client/client_impl.h"
#include "agent/client/dict_to_types.h"
#include "agent/fields/grant_fields.h"

// Client's lists of what a user may use.
namespace mountd::agent {

Result<std::vector<HostVolumeGrant>> Client::ListHostVolumes(
    std::optional<std::uint32_t> uid) {
  MOUNTD_ASSIGN(const auto answer,
                impl_->Call("ListHostVolumes", "", impl_->GrantOptions(uid),
                            [](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.ListHostVolumes(opts);
                            }));
  return FromDicts<HostVolumeGrant>(answer);
}

Result<std::vector<FilesystemGrant>> Client::ListFilesystems(
    std::optional<std::uint32_t> uid) {
  MOUNTD_ASSIGN(const auto answer,
                impl_->Call("ListFilesystems", "", impl_->GrantOptions(uid),
                            [](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.ListFilesystems(opts);
                            }));
  return FromDicts<FilesystemGrant>(answer);
}

Result<std::vector<NetworkGrant>> Client::ListNetworks(
    std::optional<std::uint32_t> uid) {
  MOUNTD_ASSIGN(const auto answer,
                impl_->Call("ListNetworks", "", impl_->GrantOptions(uid),
                            [](ManagerProxy& proxy, dbus::Dict& opts) {
                              return proxy.ListNetworks(opts);
                            }));
  return FromDicts<NetworkGrant>(answer);
}

}  // namespace mountd::agent
