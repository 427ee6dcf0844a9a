// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/base/caller.h"
#include "mountd/base/result.h"
#include "mountd/policy/rules.h"

namespace mountd {

// Decides who may use, register and control which CSI plugins. Answers as
// Policy does. Lives no longer than the Policy that returned it.
class PluginPolicy {
 public:
  explicit PluginPolicy(const PolicyRules& rules) : rules_(rules) {}

  Result<void> MayUsePlugin(const Caller& caller,
                            const std::string& plugin) const;
  Result<void> MayRegisterPlugin(const Caller& caller,
                                 const std::string& plugin) const;
  Result<void> MayControlPlugin(const Caller& caller,
                                const std::string& plugin) const;

 private:
  const PolicyRules& rules_;
};

}  // namespace mountd
