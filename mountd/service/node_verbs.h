// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "mountd/base/current_user.h"
#include "mountd/service/caller_access.h"
#include "mountd/service/service_parts.h"
#include "mountd/service/teardowns.h"

namespace mountd {

// Owns nothing. Serves the operator of the node: configuration and pending
// tear-downs. Runs on workers. Never logs an error that it returns.
class NodeVerbs {
 public:
  NodeVerbs(const ServiceParts& parts, const CallerAccess& access,
            Teardowns& teardowns)
      : parts_(parts), access_(access), teardowns_(teardowns) {}

  // Puts the configuration's file in force: all of it, or nothing on an error.
  // Returns the sections that take effect only after a restart of mountd. If
  // there are any, mountd restarts right after the call. For root and
  // administrators.
  Result<std::vector<std::string>> Reload(const CallContext& call);
  Result<std::vector<OwedRecord>> ListOwed(const CallContext& call);
  // Retries one pending tear-down with its owner's rights, if it is still
  // pending.
  Result<void> RetryOwed(const OwedRecord& owed) {
    const CurrentUser user(owed.uid);
    return teardowns_.Retry(owed);
  }
  // Returns whether mountd has any object of any user to look after.
  Result<bool> OwnsSomething();

 private:
  const ServiceParts& parts_;
  const CallerAccess& access_;
  Teardowns& teardowns_;
};

}  // namespace mountd
