// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/stop_rights.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "mountd/base/user_groups.h"
#include "mountd/executors/task_copies.h"

namespace mountd {
namespace {

using RuleTest = std::function<bool(const RuleConfig&)>;

bool Names(const RuleConfig& rule, std::uint32_t gid) {
  return std::find(rule.gids.begin(), rule.gids.end(), gid) != rule.gids.end();
}

// Returns the user without any group, so that only rules with the uid match.
Caller UserAlone(std::uint32_t uid) {
  Caller user;
  user.uid = uid;
  user.gid = exec::kNoId;
  return user;
}

// Returns the user with only those groups that some of the `is_meant` rules
// name, because a plan has room for few groups.
Result<Caller> UserWithGroups(const ServiceParts& parts, const Config& config,
                              std::uint32_t uid, const RuleTest& is_meant) {
  MOUNTD_ASSIGN(UserGroups groups, GroupsOf(uid, parts.user_database));
  Caller user = UserAlone(uid);
  for (const gid_t gid : groups.all) {
    if (std::any_of(config.rules.begin(), config.rules.end(),
                    [&](const RuleConfig& rule) {
                      return is_meant(rule) && Names(rule, gid);
                    })) {
      user.groups.push_back(gid);
    }
  }
  return user;
}

// Returns a group of the caller for which a rule grants the stop.
std::uint32_t GroupThatGrants(const Config& config, const Caller& caller,
                              const RuleTest& grants) {
  std::vector<std::uint32_t> gids = caller.groups;
  gids.insert(gids.begin(), caller.gid);
  const auto found =
      std::find_if(gids.begin(), gids.end(), [&](std::uint32_t gid) {
        return std::any_of(config.rules.begin(), config.rules.end(),
                           [&](const RuleConfig& rule) {
                             return Names(rule, gid) && grants(rule);
                           });
      });
  return found == gids.end() ? exec::kNoId : *found;
}

}  // namespace

Result<void> MayFence(const ServiceParts& parts, const Policy& policy,
                      const Caller& caller, const std::string& cgroup,
                      exec::TaskStop how) {
  MOUNTD_TRY(policy.MayStopTasks(caller, cgroup, how));
  const std::shared_ptr<const Config> config = parts.config.Get();
  const Policy rules(config);
  const RuleTest grants = [&](const RuleConfig& rule) {
    return AllowsStop(rule, cgroup, how);
  };
  if (rules.MayStopTasks(UserAlone(caller.uid), cgroup, how)) {
    return Ok();
  }
  MOUNTD_ASSIGN(const Caller user,
                UserWithGroups(parts, *config, caller.uid, grants));
  if (rules.MayStopTasks(user, cgroup, how)) {
    return Ok();
  }
  const std::string uid = std::to_string(caller.uid);
  return MakeError(
      Code::kFailedPrecondition, "stop tasks", "cgroup " + cgroup,
      "only a rule of group " +
          std::to_string(GroupThatGrants(*config, caller, grants)) +
          " grants it, and a fence would not find that rule, because the user "
          "database does not list the group for user " +
          uid + "; add user " + uid +
          " to users of a rule with stop_tasks in mountd.toml, or to the "
          "group");
}

Result<exec::StopTasksState> StopFenced(const ServiceParts& parts,
                                        const FenceRecord& fence) {
  const std::shared_ptr<const Config> config = parts.config.Get();
  const auto stop = [&](const Caller& owner) {
    return parts.executor.StopTasks(
        {fence.cgroup, fence.stop_tasks,
         SearchBudgetMs(parts.config.timeouts().plan),
         Policy(config).PlanOf(owner)});
  };
  Result<exec::StopTasksState> stopped = stop(UserAlone(fence.lease.uid));
  const RuleTest may_grant = [&](const RuleConfig& rule) {
    return !rule.gids.empty() && rule.stop_tasks >= fence.stop_tasks;
  };
  if (stopped || stopped.error().code != Code::kPermissionDenied ||
      std::none_of(config->rules.begin(), config->rules.end(), may_grant)) {
    return stopped;
  }
  MOUNTD_ASSIGN(const Caller owner,
                UserWithGroups(parts, *config, fence.lease.uid, may_grant));
  return owner.groups.empty() ? std::move(stopped) : stop(owner);
}

}  // namespace mountd
