// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/policy/mount_policy.h"

#include <algorithm>
#include <span>

#include "mountd/config/id_grants.h"
#include "mountd/plan/plan_ids.h"

namespace mountd {

Result<void> MountPolicy::MayPropagate(const Caller& caller,
                                       exec::Propagation propagation) const {
  if (propagation != exec::Propagation::kBidirectional ||
      rules_.Any(caller, [](const RuleConfig& r) { return r.bidirectional; })) {
    return Ok();
  }
  return rules_.Denied(
      "bind-mount", "bidirectional",
      "no rule grants it to this user; it needs bidirectional = true "
      "in mountd.toml");
}

Result<void> MountPolicy::MayOpenTree(const Caller& caller) const {
  if (rules_.Any(caller, [](const RuleConfig& r) { return r.detached; })) {
    return Ok();
  }
  return rules_.Denied(
      "open-tree", "detached",
      "no rule grants it to this user; it needs detached = true in "
      "mountd.toml");
}

template <typename T>
Result<void> MountPolicy::MayMount(const Caller& caller,
                                   const Declared<T>& source, bool read_only,
                                   exec::Propagation propagation) const {
  const std::string object = source.what + (" " + source.name);
  const auto found = source.all.find(source.name);
  if (found == source.all.end()) {
    return MakeError(Code::kNotFound, "bind-mount", object,
                     "is not declared in mountd.toml");
  }
  if (!rules_.Any(caller, [&](const RuleConfig& rule) {
        return ListsWithAccess(rule.*source.granted, source.name, read_only);
      })) {
    return rules_.Denied(
        "bind-mount", object,
        std::string(read_only
                        ? "no rule grants it to this user; add it to "
                        : "no rule grants it to this user for writing; mount "
                          "it read-only or add it to ") +
            (source.granted == &RuleConfig::host_volumes ? "host_volumes"
                                                         : "filesystems") +
            " in mountd.toml");
  }
  const T& declared = found->second;
  if (!declared.uids.empty() &&
      std::find(declared.uids.begin(), declared.uids.end(), caller.uid) ==
          declared.uids.end()) {
    return rules_.Denied("bind-mount", object,
                         "is declared for other users only");
  }
  if (declared.read_only && !read_only) {
    return rules_.Denied("bind-mount", object,
                         "is declared read-only; mount it read-only");
  }
  if (std::find(declared.propagation.begin(), declared.propagation.end(),
                propagation) == declared.propagation.end()) {
    return rules_.Denied(
        "bind-mount", object,
        "is not declared with this propagation; use another or add "
        "it in mountd.toml");
  }
  // Mounts that appear in the source later arrive with their own flags, so they
  // may be writable.
  if (propagation != exec::Propagation::kPrivate && !declared.read_only &&
      !rules_.Any(caller, [&](const RuleConfig& rule) {
        return ListsWithAccess(rule.*source.granted, source.name, false);
      })) {
    return rules_.Denied(
        "bind-mount", object,
        "rules grant this user only reading, and mounts that appear "
        "in it later could be writable; use propagation private");
  }
  return MayPropagate(caller, propagation);
}

Result<void> MountPolicy::MayMountHostVolume(
    const Caller& caller, const std::string& host_volume, bool read_only,
    exec::Propagation propagation) const {
  return MayMount(caller,
                  Declared<HostVolumeConfig>{"host volume", host_volume,
                                             rules_.config().host_volumes,
                                             &RuleConfig::host_volumes},
                  read_only, propagation);
}

Result<void> MountPolicy::MayMountFilesystem(
    const Caller& caller, const std::string& filesystem, bool read_only,
    exec::Propagation propagation) const {
  return MayMount(caller,
                  Declared<FilesystemConfig>{"file system", filesystem,
                                             rules_.config().filesystems,
                                             &RuleConfig::filesystems},
                  read_only, propagation);
}

Result<exec::CallerPlan> MountPolicy::MayPassDirectory(
    const Caller& caller) const {
  // Record all rules with alloc_roots, because only the executor finds out in
  // which rule's directory the fd lies.
  bool allowed = false;
  for (const RuleConfig& rule : rules_.config().rules) {
    if (!rule.alloc_roots.empty() && PolicyRules::Matches(rule, caller)) {
      allowed = true;
      if (rules_.decisions() != nullptr) {
        rules_.decisions()->AllowedByRule(rule.line);
      }
    }
  }
  if (!allowed) {
    return rules_.Denied("use", "directory",
                         "no rule grants this user allocation directories; add "
                         "alloc_roots in mountd.toml");
  }
  return rules_.PlanOf(caller);
}

Result<exec::CallerPlan> MountPolicy::MayGiveFilesTo(const Caller& caller,
                                                     std::uint32_t uid,
                                                     std::uint32_t gid) const {
  MOUNTD_ASSIGN(exec::CallerPlan plan, MayPassDirectory(caller));
  const auto in_ids = [&](std::uint32_t id) {
    return rules_.Any(
        caller, [&](const RuleConfig& rule) { return Contains(rule.ids, id); });
  };
  if (uid != caller.uid && !in_ids(uid)) {
    return rules_.Denied(
        "give files", "uid " + std::to_string(uid),
        "no rule grants it to this user; add it to ids in mountd.toml");
  }
  const bool own_group =
      gid == caller.gid || std::find(caller.groups.begin(), caller.groups.end(),
                                     gid) != caller.groups.end();
  if (!own_group && !in_ids(gid)) {
    return rules_.Denied(
        "give files", "gid " + std::to_string(gid),
        "no rule grants it to this user; add it to ids in mountd.toml");
  }
  const auto told = std::span(plan.gids).first(plan.gid_count);
  // The executor checks the new group against the caller's groups in the plan,
  // so put it there. If the plan is full, it replaces the last group.
  if (own_group && std::find(told.begin(), told.end(), gid) == told.end()) {
    plan.gid_count = std::min<std::uint32_t>(
        plan.gid_count + 1, static_cast<std::uint32_t>(plan.gids.size()));
    plan.gids.at(plan.gid_count - 1) = gid;
  }
  return plan;
}

bool MountPolicy::AnyRuleGrantsRoot(const Caller& caller,
                                    const IdsSource& source) const {
  return rules_.Any(
      caller, [&](const RuleConfig& rule) { return GrantsRoot(rule, source); });
}

bool MountPolicy::MayShowRoot(const Caller& caller,
                              const IdsSource& source) const {
  return caller.uid != 0 && caller.gid != 0 &&
         AnyRuleGrantsRoot(caller, source);
}

Result<exec::CallerPlan> MountPolicy::MayMapIds(const Caller& caller,
                                                const exec::IdMapPlan& ids,
                                                const IdsSource& source) const {
  IdsOwner owner{caller.uid, caller.gid};
  owner.root_as_caller =
      exec::ShowsRoot(ids) && AnyRuleGrantsRoot(caller, source);
  const exec::IdExtent* foreign =
      FindForeign(ids, owner, [&](const exec::IdExtent& extent) {
        return rules_.Any(caller, [&](const RuleConfig& rule) {
          return AllowsIds(rule, extent);
        });
      });
  if (foreign != nullptr && foreign->on_disk == 0) {
    return rules_.Denied(
        "bind-mount", "root's ids",
        "no rule grants it to this user; it needs root_as_caller = "
        "true beside host_volumes or plugins in mountd.toml, and "
        "shows root's uid and gid as the caller's own alone");
  }
  if (foreign != nullptr) {
    return rules_.Denied(
        "bind-mount", "ids from " + std::to_string(foreign->on_disk),
        "no rule grants it to this user; add it to ids in mountd.toml");
  }
  return rules_.PlanOf(caller);
}

std::vector<IdRange> MountPolicy::IdsOf(const Caller& caller) const {
  std::vector<IdRange> ranges;
  for (const RuleConfig& rule : rules_.config().rules) {
    if (PolicyRules::Matches(rule, caller)) {
      ranges.insert(ranges.end(), rule.ids.begin(), rule.ids.end());
    }
  }
  return ranges;
}

Result<void> MountPolicy::MayMountIn(const Caller& caller,
                                     const std::string& path,
                                     bool tmpfs) const {
  if (rules_.Any(caller, [&](const RuleConfig& rule) {
        return AllowsContainer(rule, path, tmpfs);
      })) {
    return Ok();
  }
  return rules_.Denied(
      "bind-mount", "container in cgroup " + path,
      tmpfs ? "no rule grants this user a tmpfs there; it needs cgroups, "
              "containers = true and container_tmpfs = true in mountd.toml"
            : "no rule grants it to this user; it needs cgroups and containers "
              "= true in mountd.toml");
}

}  // namespace mountd
