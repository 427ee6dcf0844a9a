// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/owners_call.h"

#include "mountd/base/user_groups.h"

namespace mountd {

Result<CallContext> OwnersCall(const AllocationRecord& owner) {
  CallContext call;
  call.caller.uid = owner.uid;
  call.caller.gid = owner.gid;
  MOUNTD_ASSIGN(const UserGroups groups, GroupsOf(owner.uid));
  call.caller.groups.assign(groups.all.begin(), groups.all.end());
  return call;
}

}  // namespace mountd
