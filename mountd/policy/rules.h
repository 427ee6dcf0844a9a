// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "mountd/base/caller.h"
#include "mountd/base/result.h"
#include "mountd/config/config.h"
#include "mountd/store/records.h"

namespace mountd {

// Owns the configuration of one Policy, and finds the rules of a caller in it.
// Records which rules allow the call. Thread-safe.
class PolicyRules {
 public:
  PolicyRules(std::shared_ptr<const Config> config,
              std::shared_ptr<Decisions> decisions)
      : holder_(std::move(config)), decisions_(std::move(decisions)) {}

  const Config& config() const { return *holder_; }
  // Returns where to record the decisions; nullptr if nowhere.
  Decisions* decisions() const { return decisions_.get(); }

  // Returns whether the rule names the caller.
  static bool Matches(const RuleConfig& rule, const Caller& caller);

  // Returns whether a rule names the caller and allows the call.
  template <typename F>
  bool Any(const Caller& caller, F allows) const {
    const std::vector<RuleConfig>& rules = holder_->rules;
    const auto rule =
        std::find_if(rules.begin(), rules.end(), [&](const RuleConfig& one) {
          return Matches(one, caller) && allows(one);
        });
    if (rule == rules.end()) {
      return false;
    }
    if (decisions_ != nullptr) {
      decisions_->AllowedByRule(rule->line);
    }
    return true;
  }

  // Returns the denial of a call, and clears the recorded decisions, because no
  // rule allowed the call.
  Error Denied(const std::string& op, const std::string& object,
               const std::string& why) const;
  // Returns the caller in the form in which the executor looks for its rules.
  exec::CallerPlan PlanOf(const Caller& caller) const;

 private:
  const std::shared_ptr<const Config> holder_;
  const std::shared_ptr<Decisions> decisions_;
};

}  // namespace mountd
