// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <string>

#include "mountd/base/unique_fd.h"
#include "mountd/service/caller_access.h"
#include "mountd/service/service_parts.h"

namespace mountd {

// Owns nothing; prepares and removes tasks' inboxes. Runs on workers, on the
// allocation's strand. Never logs an error that it returns.
class InboxVerbs {
 public:
  InboxVerbs(const ServiceParts& parts, const CallerAccess& access)
      : parts_(parts), access_(access) {}

  struct Inbox {
    std::string host_path;
    // A clone of the inbox, if the caller wants one.
    std::shared_ptr<UniqueFd> tree;
  };
  Result<Inbox> PrepareInbox(const CallContext& call, const InboxRecord& record,
                             bool open);
  Result<void> RemoveInbox(const CallContext& call, const InboxRecord& inbox);

 private:
  const ServiceParts& parts_;
  const CallerAccess& access_;
};

}  // namespace mountd
