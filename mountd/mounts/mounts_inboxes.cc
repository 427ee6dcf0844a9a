// SPDX-License-Identifier: LGPL-2.1-or-later
#include <utility>

#include "mountd/mounts/mounts.h"
#include "mountd/plan/wire.h"

namespace mountd {

Result<std::string> Mounts::PrepareInbox(const InboxRecord& inbox) {
  MOUNTD_ASSIGN(const std::vector<std::string> tasks,
                store_.inboxes.InboxesOf(inbox.allocation));
  // An inbox that exists does not count against the limit.
  const bool known =
      std::find(tasks.begin(), tasks.end(), inbox.task) != tasks.end();
  if (!known && tasks.size() >= config_.limits.inboxes_per_allocation) {
    return MakeError(Code::kResourceExhausted, "prepare-inbox",
                     inbox.allocation + "/" + inbox.task,
                     "limits.inboxes_per_allocation is reached; remove others "
                     "of this allocation or raise the limit");
  }
  // The record comes first, so that the next start makes the inbox if this call
  // cannot.
  MOUNTD_TRY(store_.inboxes.PutInbox(inbox));
  MOUNTD_TRY(executor_.PrepareInbox(
      {exec::ToWire(inbox.allocation), exec::ToWire(inbox.task)}));
  return InboxPath(inbox);
}

Result<exec::HandedOutFd> Mounts::OpenInbox(const InboxRecord& inbox) {
  return executor_.OpenInbox(
      {exec::ToWire(inbox.allocation), exec::ToWire(inbox.task)});
}

Result<void> Mounts::RecoverInboxes(const std::string& allocation) {
  MOUNTD_ASSIGN(const std::vector<std::string> tasks,
                store_.inboxes.InboxesOf(allocation));
  for (const std::string& task : tasks) {
    MOUNTD_TRY(
        executor_.PrepareInbox({exec::ToWire(allocation), exec::ToWire(task)}));
  }
  return Ok();
}

Result<void> Mounts::RemoveInbox(const InboxRecord& inbox) {
  MOUNTD_TRY(executor_.RemoveInbox(
      {exec::ToWire(inbox.allocation), exec::ToWire(inbox.task)}));
  return store_.inboxes.RemoveInbox(inbox);
}

}  // namespace mountd
