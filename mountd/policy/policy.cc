// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/policy/policy.h"

namespace mountd {

bool Policy::MayAdminister(const Caller& caller) const {
  if (!caller.authority.empty()) {
    if (rules_.decisions() != nullptr) {
      rules_.decisions()->AllowedBy(caller.authority);
    }
    return true;
  }
  // Root may administer even if no rule says so.
  return caller.uid == 0 || rules_.Any(caller, [](const RuleConfig& rule) {
    return rule.administer;
  });
}

Result<void> Policy::MustAdminister(const Caller& caller, const std::string& op,
                                    const std::string& object) const {
  if (MayAdminister(caller)) {
    return Ok();
  }
  return ButAdministrators(
      rules_.Denied(op, object,
                    "no rule grants it to this user; it needs "
                    "administer = true in mountd.toml"));
}

Result<void> Policy::MayUse(const Caller& caller, std::uint32_t owner,
                            const std::string& what) const {
  if (caller.uid == owner) {
    return Ok();
  }
  if (MayAdminister(caller)) {
    if (rules_.decisions() != nullptr) {
      rules_.decisions()->UsedAsAdministrator(owner);
    }
    return Ok();
  }
  return ButAdministrators(
      rules_.Denied("use", what, "belongs to another user"));
}

Result<void> Policy::MayPrepare(const Caller& caller) const {
  if (rules_.Any(caller, [](const RuleConfig&) { return true; })) {
    return Ok();
  }
  return rules_.Denied(
      "prepare", "allocation",
      "no rule names this user; add a [[rule]] for it to mountd.toml");
}

Result<void> Policy::MayLetPass(const Caller& caller,
                                std::uint32_t group) const {
  if (rules_.Any(caller, [&](const RuleConfig& rule) {
        return Contains(rule.ids, group);
      })) {
    return Ok();
  }
  return rules_.Denied(
      "prepare", "group " + std::to_string(group),
      "no rule grants it to this user; add it to ids in mountd.toml");
}

Result<void> Policy::MayUseCgroup(const Caller& caller,
                                  const std::string& path) const {
  if (rules_.Any(caller, [&](const RuleConfig& rule) {
        return AllowsCgroup(rule, path);
      })) {
    return Ok();
  }
  return rules_.Denied(
      "use", "cgroup " + path,
      "no rule grants it to this user; add it to cgroups in mountd.toml");
}

Result<void> Policy::MayStopTasks(const Caller& caller, const std::string& path,
                                  exec::TaskStop how) const {
  if (rules_.Any(caller, [&](const RuleConfig& rule) {
        return AllowsStop(rule, path, how);
      })) {
    return Ok();
  }
  const bool kills = how == exec::TaskStop::kKill;
  return rules_.Denied(
      "stop tasks", "cgroup " + path,
      std::string("no rule grants it to this user; it needs cgroups "
                  "and stop_tasks = \"") +
          (kills ? "kill" : "freeze") + "\" in mountd.toml");
}

}  // namespace mountd
