// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/grant_verbs.h"

#include <string>
#include <utility>

#include "mountd/base/user_groups.h"

namespace mountd {

Result<Grants> GrantVerbs::Find(const CallContext& call,
                                const GrantsOf& of) const {
  if (of.all_users) {
    MOUNTD_TRY(access_.SeesAll(call));
    call.decisions->UsedAllAsAdministrator();
    return Grants::OfAllUsers(parts_.config.Get());
  }
  if (!of.uid || *of.uid == call.caller.uid) {
    return Grants(parts_.config.Get(), call.caller);
  }
  MOUNTD_TRY(access_.PolicyFor(call).MustAdminister(
      call.caller, "see", "grants of user " + std::to_string(*of.uid)));
  call.decisions->UsedAsAdministrator(*of.uid);
  MOUNTD_ASSIGN(UserGroups groups, GroupsOf(*of.uid));
  Caller other;
  other.uid = *of.uid;
  other.gid = groups.primary;
  other.groups = std::move(groups.all);
  return Grants(parts_.config.Get(), std::move(other));
}

Result<std::vector<HostVolumeGrant>> GrantVerbs::ListHostVolumes(
    const CallContext& call, const GrantsOf& of) const {
  MOUNTD_ASSIGN(const Grants grants, Find(call, of));
  return grants.HostVolumes();
}

Result<std::vector<FilesystemGrant>> GrantVerbs::ListFilesystems(
    const CallContext& call, const GrantsOf& of) const {
  MOUNTD_ASSIGN(const Grants grants, Find(call, of));
  return grants.Filesystems();
}

Result<std::vector<NetworkGrant>> GrantVerbs::ListNetworks(
    const CallContext& call, const GrantsOf& of) const {
  MOUNTD_ASSIGN(const Grants grants, Find(call, of));
  CniListing cni;
  if (grants.MayBeInSomeCni()) {
    MOUNTD_ASSIGN(cni, parts_.networks.cni().List());
  }
  return grants.Networks(cni);
}

}  // namespace mountd
