// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/policy/rules.h"

#include <algorithm>
#include <span>

namespace mountd {

bool PolicyRules::Matches(const RuleConfig& rule, const Caller& caller) {
  return Applies(rule, caller.uid, std::span(&caller.gid, 1)) ||
         Applies(rule, caller.uid, caller.groups);
}

Error PolicyRules::Denied(const std::string& op, const std::string& object,
                          const std::string& why) const {
  if (decisions_ != nullptr) {
    decisions_->Denied();
  }
  return MakeError(Code::kPermissionDenied, op, object, why);
}

// Puts into the plan the caller's groups that some rule names, because the
// executor finds the caller's rules by them.
exec::CallerPlan PolicyRules::PlanOf(const Caller& caller) const {
  exec::CallerPlan plan;
  plan.uid = caller.uid;
  // The primary group comes first, because the executor gives files back to
  // gids[0].
  plan.gids[plan.gid_count++] = caller.gid;
  for (const std::uint32_t gid : caller.groups) {
    if (plan.gid_count == plan.gids.size()) {
      break;
    }
    if (std::any_of(holder_->rules.begin(), holder_->rules.end(),
                    [&](const RuleConfig& rule) {
                      return std::find(rule.gids.begin(), rule.gids.end(),
                                       gid) != rule.gids.end();
                    })) {
      plan.gids[plan.gid_count++] = gid;
    }
  }
  return plan;
}

}  // namespace mountd
