// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/policy/policy.h"

#include <algorithm>

#include "mountd/base/paths.h"
#include "mountd/config/id_grants.h"
#include "mountd/plan/plan_ids.h"

namespace mountd {
namespace {

bool Matches(const RuleConfig& rule, const Caller& caller) {
  return Applies(rule, caller.uid, std::span(&caller.gid, 1)) ||
         Applies(rule, caller.uid, caller.groups);
}

}  // namespace

Error Policy::Denied(const std::string& op, const std::string& object,
                     const std::string& why) const {
  if (decisions_ != nullptr) {
    decisions_->Denied();
  }
  return MakeError(Code::kPermissionDenied, op, object, why);
}

template <typename F>
bool Policy::AnyRule(const Caller& caller, F allows) const {
  const auto rule = std::find_if(config_.rules.begin(), config_.rules.end(),
                                 [&](const RuleConfig& one) {
                                   return Matches(one, caller) && allows(one);
                                 });
  if (rule == config_.rules.end()) {
    return false;
  }
  if (decisions_ != nullptr) {
    decisions_->AllowedByRule(rule->line);
  }
  return true;
}

bool Policy::MayAdminister(const Caller& caller) const {
  if (!caller.authority.empty()) {
    if (decisions_ != nullptr) {
      decisions_->AllowedBy(caller.authority);
    }
    return true;
  }
  // Root may administer without a rule.
  return caller.uid == 0 || AnyRule(caller, [](const RuleConfig& rule) {
           return rule.administer;
         });
}

Result<void> Policy::MustAdminister(const Caller& caller, const std::string& op,
                                    const std::string& object) const {
  if (MayAdminister(caller)) {
    return Ok();
  }
  return ButAdministrators(Denied(op, object,
                                  "no rule grants it to this user; it needs "
                                  "administer = true in mountd.toml"));
}

Result<void> Policy::MayUse(const Caller& caller, std::uint32_t owner,
                            const std::string& what) const {
  if (caller.uid == owner) {
    return Ok();
  }
  if (MayAdminister(caller)) {
    if (decisions_ != nullptr) {
      decisions_->UsedAsAdministrator(owner);
    }
    return Ok();
  }
  return ButAdministrators(Denied("use", what, "belongs to another user"));
}

Result<void> Policy::MayPrepare(const Caller& caller) const {
  if (AnyRule(caller, [](const RuleConfig&) { return true; })) {
    return Ok();
  }
  return Denied(
      "prepare", "allocation",
      "no rule names this user; add a [[rule]] for it to mountd.toml");
}

Result<void> Policy::MayPropagate(const Caller& caller,
                                  exec::Propagation propagation) const {
  if (propagation != exec::Propagation::kBidirectional ||
      AnyRule(caller, [](const RuleConfig& r) { return r.bidirectional; })) {
    return Ok();
  }
  return Denied("bind-mount", "bidirectional",
                "no rule grants it to this user; it needs bidirectional = true "
                "in mountd.toml");
}

Result<void> Policy::MayOpenTree(const Caller& caller) const {
  if (AnyRule(caller, [](const RuleConfig& r) { return r.detached; })) {
    return Ok();
  }
  return Denied("open-tree", "detached",
                "no rule grants it to this user; it needs detached = true in "
                "mountd.toml");
}

template <typename T>
Result<void> Policy::MayMount(const Caller& caller, const Declared<T>& source,
                              bool read_only,
                              exec::Propagation propagation) const {
  const std::string object = source.what + (" " + source.name);
  const auto found = source.all.find(source.name);
  if (found == source.all.end()) {
    return MakeError(Code::kNotFound, "bind-mount", object,
                     "is not declared in mountd.toml");
  }
  if (!AnyRule(caller, [&](const RuleConfig& rule) {
        return ListsWithAccess(rule.*source.granted, source.name, read_only);
      })) {
    return Denied(
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
    return Denied("bind-mount", object, "is declared for other users only");
  }
  if (declared.read_only && !read_only) {
    return Denied("bind-mount", object,
                  "is declared read-only; mount it read-only");
  }
  if (std::find(declared.propagation.begin(), declared.propagation.end(),
                propagation) == declared.propagation.end()) {
    return Denied("bind-mount", object,
                  "is not declared with this propagation; use another or add "
                  "it in mountd.toml");
  }
  // Later mounts in the source arrive as they were mounted, so they may be
  // writable.
  if (propagation != exec::Propagation::kPrivate && !declared.read_only &&
      !AnyRule(caller, [&](const RuleConfig& rule) {
        return ListsWithAccess(rule.*source.granted, source.name, false);
      })) {
    return Denied("bind-mount", object,
                  "rules grant this user only reading, and mounts that appear "
                  "in it later could be writable; use propagation private");
  }
  return MayPropagate(caller, propagation);
}

Result<void> Policy::MayMountHostVolume(const Caller& caller,
                                        const std::string& host_volume,
                                        bool read_only,
                                        exec::Propagation propagation) const {
  return MayMount(caller,
                  Declared<HostVolumeConfig>{"host volume", host_volume,
                                             config_.host_volumes,
                                             &RuleConfig::host_volumes},
                  read_only, propagation);
}

Result<void> Policy::MayMountFilesystem(const Caller& caller,
                                        const std::string& filesystem,
                                        bool read_only,
                                        exec::Propagation propagation) const {
  return MayMount(
      caller,
      Declared<FilesystemConfig>{"file system", filesystem, config_.filesystems,
                                 &RuleConfig::filesystems},
      read_only, propagation);
}

Result<exec::CallerPlan> Policy::MayPassDirectory(const Caller& caller) const {
  // The executor finds out which rule's directory it is, so record all of these
  // rules.
  bool allowed = false;
  for (const RuleConfig& rule : config_.rules) {
    if (!rule.alloc_roots.empty() && Matches(rule, caller)) {
      allowed = true;
      if (decisions_ != nullptr) {
        decisions_->AllowedByRule(rule.line);
      }
    }
  }
  if (!allowed) {
    return Denied("use", "directory",
                  "no rule grants this user allocation directories; add "
                  "alloc_roots in mountd.toml");
  }
  return PlanOf(caller);
}

// Tells the executor the groups that some rule names, because it looks for the
// caller's rules itself.
exec::CallerPlan Policy::PlanOf(const Caller& caller) const {
  exec::CallerPlan plan;
  plan.uid = caller.uid;
  // The primary group comes first, because files go back to gids[0].
  plan.gids[plan.gid_count++] = caller.gid;
  for (const std::uint32_t gid : caller.groups) {
    if (plan.gid_count == plan.gids.size()) {
      break;
    }
    if (std::any_of(config_.rules.begin(), config_.rules.end(),
                    [&](const RuleConfig& rule) {
                      return std::find(rule.gids.begin(), rule.gids.end(),
                                       gid) != rule.gids.end();
                    })) {
      plan.gids[plan.gid_count++] = gid;
    }
  }
  return plan;
}

Result<void> Policy::MayLetPass(const Caller& caller,
                                std::uint32_t group) const {
  if (AnyRule(caller, [&](const RuleConfig& rule) {
        return Contains(rule.ids, group);
      })) {
    return Ok();
  }
  return Denied("prepare", "group " + std::to_string(group),
                "no rule grants it to this user; add it to ids in mountd.toml");
}

Result<exec::CallerPlan> Policy::MayGiveFilesTo(const Caller& caller,
                                                std::uint32_t uid,
                                                std::uint32_t gid) const {
  MOUNTD_ASSIGN(exec::CallerPlan plan, MayPassDirectory(caller));
  const auto in_ids = [&](std::uint32_t id) {
    return AnyRule(
        caller, [&](const RuleConfig& rule) { return Contains(rule.ids, id); });
  };
  if (uid != caller.uid && !in_ids(uid)) {
    return Denied(
        "give files", "uid " + std::to_string(uid),
        "no rule grants it to this user; add it to ids in mountd.toml");
  }
  const bool own_group =
      gid == caller.gid || std::find(caller.groups.begin(), caller.groups.end(),
                                     gid) != caller.groups.end();
  if (!own_group && !in_ids(gid)) {
    return Denied(
        "give files", "gid " + std::to_string(gid),
        "no rule grants it to this user; add it to ids in mountd.toml");
  }
  const auto told = std::span(plan.gids).first(plan.gid_count);
  // The executor checks the group against the plan, so put it there, in the
  // last place if the plan is full.
  if (own_group && std::find(told.begin(), told.end(), gid) == told.end()) {
    plan.gid_count = std::min<std::uint32_t>(
        plan.gid_count + 1, static_cast<std::uint32_t>(plan.gids.size()));
    plan.gids.at(plan.gid_count - 1) = gid;
  }
  return plan;
}

bool Policy::AnyRuleGrantsRoot(const Caller& caller,
                               const IdsSource& source) const {
  return AnyRule(
      caller, [&](const RuleConfig& rule) { return GrantsRoot(rule, source); });
}

bool Policy::MayShowRoot(const Caller& caller, const IdsSource& source) const {
  return caller.uid != 0 && caller.gid != 0 &&
         AnyRuleGrantsRoot(caller, source);
}

Result<exec::CallerPlan> Policy::MayMapIds(const Caller& caller,
                                           const exec::IdMapPlan& ids,
                                           const IdsSource& source) const {
  IdsOwner owner{caller.uid, caller.gid};
  owner.root_as_caller =
      exec::ShowsRoot(ids) && AnyRuleGrantsRoot(caller, source);
  const exec::IdExtent* foreign =
      FindForeign(ids, owner, [&](const exec::IdExtent& extent) {
        return AnyRule(caller, [&](const RuleConfig& rule) {
          return AllowsIds(rule, extent);
        });
      });
  if (foreign != nullptr && foreign->on_disk == 0) {
    return Denied("bind-mount", "root's ids",
                  "no rule grants it to this user; it needs root_as_caller = "
                  "true beside host_volumes or plugins in mountd.toml, and "
                  "shows root's uid and gid as the caller's own alone");
  }
  if (foreign != nullptr) {
    return Denied(
        "bind-mount", "ids from " + std::to_string(foreign->on_disk),
        "no rule grants it to this user; add it to ids in mountd.toml");
  }
  return PlanOf(caller);
}

Result<void> Policy::MayUsePlugin(const Caller& caller,
                                  const std::string& plugin) const {
  if (AnyRule(caller, [&](const RuleConfig& rule) {
        return Lists(rule.plugins, plugin);
      })) {
    return Ok();
  }
  return Denied(
      "use", "plugin " + plugin,
      "no rule grants it to this user; add it to plugins in mountd.toml");
}

Result<void> Policy::MayRegisterPlugin(const Caller& caller,
                                       const std::string& plugin) const {
  if (AnyRule(caller, [&](const RuleConfig& rule) {
        return Lists(rule.register_plugins, plugin);
      })) {
    return Ok();
  }
  return Denied("register", "plugin " + plugin,
                "no rule grants it to this user; add it to register_plugins in "
                "mountd.toml");
}

Result<void> Policy::MayControlPlugin(const Caller& caller,
                                      const std::string& plugin) const {
  if (AnyRule(caller, [&](const RuleConfig& rule) {
        return Lists(rule.control_plugins, plugin);
      })) {
    return Ok();
  }
  return Denied("control", "plugin " + plugin,
                "no rule grants it to this user; add it to control_plugins in "
                "mountd.toml");
}

Result<void> Policy::MayUseNetwork(const Caller& caller,
                                   const NetworkRequest& request) const {
  if (request.mode == NetworkMode::kBridge) {
    MOUNTD_TRY(MayBeIn(caller, request.network));
  }
  if (request.mode == NetworkMode::kCni) {
    MOUNTD_TRY(MayBeInCni(caller, request.network));
  }
  for (const PortMapping& port : request.ports) {
    const bool allowed = AnyRule(caller, [&](const RuleConfig& rule) {
      return GrantsPorts(rule, port.host_port, port.count);
    });
    if (!allowed) {
      return Denied("map", "host port " + std::to_string(port.host_port),
                    "no rule grants it to this user; add it to host_ports in "
                    "mountd.toml");
    }
  }
  return Ok();
}

Result<void> Policy::MayBeIn(const Caller& caller,
                             const std::string& network) const {
  if (!config_.networks.contains(network)) {
    return MakeError(Code::kNotFound, "set up", "network " + network,
                     "is not declared in mountd.toml");
  }
  if (!AnyRule(caller, [&](const RuleConfig& rule) {
        return Lists(rule.networks, network);
      })) {
    return Denied(
        "set up", "network " + network,
        "no rule grants it to this user; add it to networks in mountd.toml");
  }
  return Ok();
}

Result<void> Policy::MayBeInCni(const Caller& caller,
                                const std::string& network) const {
  const std::string object = "network " + ModeText(NetworkMode::kCni, network);
  if (!config_.cni.enabled()) {
    return MakeError(
        Code::kNotSupported, "set up", object,
        "the configuration has no [cni] section, which CNI networks need");
  }
  if (!AnyRule(caller, [&](const RuleConfig& rule) {
        return GrantsCniNetwork(rule, network);
      })) {
    return Denied(
        "set up", object,
        "no rule grants it to this user; add it to networks in mountd.toml");
  }
  return Ok();
}

bool Policy::MayBeInSomeCni(const Caller& caller) const {
  return AnyRule(caller, [](const RuleConfig& rule) {
    return std::any_of(
        rule.networks.begin(), rule.networks.end(),
        [](const std::string& name) { return name.starts_with(kCniPrefix); });
  });
}

std::vector<PortRange> Policy::HostPortsOf(const Caller& caller) const {
  std::vector<PortRange> ranges;
  for (const RuleConfig& rule : config_.rules) {
    if (Matches(rule, caller)) {
      ranges.insert(ranges.end(), rule.host_ports.begin(),
                    rule.host_ports.end());
    }
  }
  return ranges;
}

std::vector<IdRange> Policy::IdsOf(const Caller& caller) const {
  std::vector<IdRange> ranges;
  for (const RuleConfig& rule : config_.rules) {
    if (Matches(rule, caller)) {
      ranges.insert(ranges.end(), rule.ids.begin(), rule.ids.end());
    }
  }
  return ranges;
}

bool Policy::MayPassHostNamespaces(const Caller& caller) const {
  return AnyRule(caller,
                 [](const RuleConfig& rule) { return rule.host_namespaces; });
}

Result<void> Policy::MayUseCgroup(const Caller& caller,
                                  const std::string& path) const {
  if (AnyRule(caller, [&](const RuleConfig& rule) {
        return AllowsCgroup(rule, path);
      })) {
    return Ok();
  }
  return Denied(
      "use", "cgroup " + path,
      "no rule grants it to this user; add it to cgroups in mountd.toml");
}

Result<void> Policy::MayStopTasks(const Caller& caller, const std::string& path,
                                  exec::TaskStop how) const {
  if (AnyRule(caller, [&](const RuleConfig& rule) {
        return AllowsStop(rule, path, how);
      })) {
    return Ok();
  }
  const bool kills = how == exec::TaskStop::kKill;
  return Denied("stop tasks", "cgroup " + path,
                std::string("no rule grants it to this user; it needs cgroups "
                            "and stop_tasks = \"") +
                    (kills ? "kill" : "freeze") + "\" in mountd.toml");
}

Result<void> Policy::MayMountIn(const Caller& caller, const std::string& path,
                                bool tmpfs) const {
  if (AnyRule(caller, [&](const RuleConfig& rule) {
        return AllowsContainer(rule, path, tmpfs);
      })) {
    return Ok();
  }
  return Denied(
      "bind-mount", "container in cgroup " + path,
      tmpfs ? "no rule grants this user a tmpfs there; it needs cgroups, "
              "containers = true and container_tmpfs = true in mountd.toml"
            : "no rule grants it to this user; it needs cgroups and containers "
              "= true in mountd.toml");
}

}  // namespace mountd
