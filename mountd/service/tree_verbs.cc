// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/tree_verbs.h"

namespace mountd {

Result<TreeResult> TreeVerbs::RemoveTree(const CallContext& call,
                                         const UniqueFd& directory) {
  exec::TreePlan plan;
  MOUNTD_ASSIGN(plan.caller,
                access_.PolicyFor(call).mounts().MayPassDirectory(call.caller));
  return mountd::RemoveTree(parts_.executor, call, plan, directory);
}

Result<TreeResult> TreeVerbs::ChownTree(const CallContext& call,
                                        const UniqueFd& directory,
                                        std::uint32_t uid, std::uint32_t gid) {
  exec::TreePlan plan;
  MOUNTD_ASSIGN(plan.caller, access_.PolicyFor(call).mounts().MayGiveFilesTo(
                                 call.caller, uid, gid));
  plan.uid = uid;
  plan.gid = gid;
  return mountd::ChownTree(parts_.executor, call, plan, directory);
}

}  // namespace mountd
