// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/service/caller_access.h"
#include "mountd/service/service_parts.h"

namespace mountd {

// Owns nothing. Decides whether a caller may have a mount, and fills in the
// fields of the request that the plan needs. Runs on workers, on the
// allocation's strand. Never mounts anything.
class MountAdmission {
 public:
  MountAdmission(const ServiceParts& parts, const CallerAccess& access)
      : parts_(parts), access_(access) {}

  // Checks whether the caller may have this mount, and fills in the plan's
  // fields.
  Result<void> Authorise(const CallContext& call, const AllocationRecord& owner,
                         BindMountRequest& request) const;
  // ResourceExhausted if there is no room for one more mount.
  Result<void> CheckRoom(const BindMountRequest& request) const;
  // As Authorise, but always with the rights of the allocation's owner. If the
  // caller is an administrator, asks the user database for the owner's groups.
  // Unavailable if the database does not answer.
  Result<void> AuthoriseOwners(const CallContext& call,
                               const AllocationRecord& owner,
                               BindMountRequest& request) const;
  // Completes the request for a mount that mountd makes again without a call.
  // Uses the rights of the allocation's owner.
  Result<void> AuthoriseForOwner(const AllocationRecord& owner,
                                 BindMountRequest& request) const;
  // Checks the published volume and fills in the plan's fields for it.
  Result<void> CheckVolumeSource(BindMountRequest& request) const;

 private:
  Result<void> AuthoriseTarget(const CallContext& call,
                               const AllocationRecord& owner,
                               BindMountRequest& request) const;
  Result<void> AuthoriseSource(const CallContext& call,
                               const AllocationRecord& owner,
                               BindMountRequest& request) const;
  Result<void> AuthoriseDirectory(const CallContext& call,
                                  BindMountRequest& request) const;
  Result<void> AuthoriseIds(const CallContext& call,
                            BindMountRequest& request) const;
  static Result<void> CompleteTmpfs(const AllocationRecord& owner,
                                    BindMountRequest& request);

  const ServiceParts& parts_;
  const CallerAccess& access_;
};

}  // namespace mountd
