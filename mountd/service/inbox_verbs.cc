// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/inbox_verbs.h"

#include <memory>
#include <utility>

#include "mountd/service/handed_out.h"

namespace mountd {

Result<InboxVerbs::Inbox> InboxVerbs::PrepareInbox(const CallContext& call,
                                                   const InboxRecord& record,
                                                   bool open) {
  MOUNTD_ASSIGN(const AllocationRecord owner,
                access_.FindPrepared(call, record.allocation));
  if (open) {
    MOUNTD_TRY(access_.PolicyFor(call).mounts().MayOpenTree(call.caller));
  }
  Inbox inbox;
  MOUNTD_ASSIGN(inbox.host_path, parts_.mounts.PrepareInbox(record));
  if (open) {
    HandedOutRecord handed_out;
    handed_out.allocation = owner.id;
    handed_out.uid = owner.uid;
    handed_out.kind = HandedOutKind::kInbox;
    handed_out.name = record.task;
    MOUNTD_ASSIGN(UniqueFd tree, HandOut(parts_, std::move(handed_out), [&] {
                    return parts_.mounts.OpenInbox(record);
                  }));
    inbox.tree = std::make_shared<UniqueFd>(std::move(tree));
  }
  MOUNTD_TRY(access_.leases().CheckUsable(owner));
  return inbox;
}

Result<void> InboxVerbs::RemoveInbox(const CallContext& call,
                                     const InboxRecord& inbox) {
  MOUNTD_TRY(access_.Find(call, inbox.allocation));
  return parts_.mounts.RemoveInbox(inbox);
}

}  // namespace mountd
