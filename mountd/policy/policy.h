// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "mountd/base/caller.h"
#include "mountd/base/result.h"
#include "mountd/config/config.h"
#include "mountd/policy/mount_policy.h"
#include "mountd/policy/network_policy.h"
#include "mountd/policy/plugin_policy.h"
#include "mountd/policy/rules.h"

namespace mountd {

// Decides which caller may do what, by the configuration's rules alone. Denies
// by default. Root and administrators need rules like everyone else, except
// that root may always administer.
//
// Pure: does no I/O, and has no state but its configuration. Each answer is Ok,
// PermissionDenied, NotFound if the configuration does not declare the object,
// or NotSupported if it has no [cni] section for a CNI network. A denial says
// what is missing, in words that an operator can put into the configuration,
// and whether an administrator may (Error::administrator_may). Thread-safe.
class Policy {
 public:
  // Records in `decisions`, if there is one, which rules allow the call.
  explicit Policy(std::shared_ptr<const Config> config,
                  std::shared_ptr<Decisions> decisions = nullptr)
      : rules_(std::move(config), std::move(decisions)) {}

  // Decisions about one subject each, by the same configuration.
  MountPolicy mounts() const { return MountPolicy(rules_); }
  NetworkPolicy networks() const { return NetworkPolicy(rules_); }
  PluginPolicy plugins() const { return PluginPolicy(rules_); }

  // Ok if the caller is the owner of `what`, or an administrator.
  Result<void> MayUse(const Caller& caller, std::uint32_t owner,
                      const std::string& what) const;
  bool MayAdminister(const Caller& caller) const;
  // Ok if the caller is an administrator. Only administrators may do `op` on
  // `object`.
  Result<void> MustAdminister(const Caller& caller, const std::string& op,
                              const std::string& object) const;

  // Ok if some rule names the caller, so that it may have allocations.
  Result<void> MayPrepare(const Caller& caller) const;
  // Ok if the processes of this group may pass through directories of the
  // caller's allocations, because some rule's ids have the group.
  Result<void> MayLetPass(const Caller& caller, std::uint32_t group) const;
  // `path` is a path in the host's own hierarchy.
  Result<void> MayUseCgroup(const Caller& caller,
                            const std::string& path) const;
  // Ok if a fence may stop the caller's tasks in the cgroup `path` in this way
  // (stop_tasks).
  Result<void> MayStopTasks(const Caller& caller, const std::string& path,
                            exec::TaskStop how) const;
  // Returns the caller in the form in which the executor looks for its rules.
  exec::CallerPlan PlanOf(const Caller& caller) const {
    return rules_.PlanOf(caller);
  }

 private:
  const PolicyRules rules_;
};

}  // namespace mountd
