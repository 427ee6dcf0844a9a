// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/doctor/nomad_checks.h"

#include <algorithm>
#include <sstream>

#include "agent/mountctl/output/output.h"

namespace mountd::agent {
namespace {

constexpr char kInstall[] = "apt-get install mountd-nomad";
constexpr char kUnit[] = "unit nomad.service";

Check Failed(std::string what, std::string why, std::string advice) {
  return {Verdict::kFailed, std::move(what), std::move(why), std::move(advice)};
}

bool IsZero(const std::optional<std::string>& value) {
  return value && *value == "0";
}

// Returns the controllers for limits that the cgroup lacks.
std::vector<std::string> MissingControllers(const std::string& controllers) {
  std::vector<std::string> missing = {"cpu", "memory", "pids"};
  std::istringstream words(controllers);
  for (std::string word; words >> word;) {
    missing.erase(std::remove(missing.begin(), missing.end(), word),
                  missing.end());
  }
  return missing;
}

}  // namespace

Check CheckNomadUser(const std::string& user, bool root) {
  if (!root) {
    return Fine("user", user);
  }
  return Failed("user",
                "this is root, and a client without root is another user",
                "runuser -u nomad -- mountctl doctor --nomad");
}

Check CheckSubordinateIds(const std::string& path, const std::string& user,
                          const Result<std::uint64_t>& count) {
  constexpr std::uint64_t kUsual = 65'536;
  if (!count) {
    return NotSeen(path, count.error());
  }
  const std::string why = "gives " + user + " " + Count(*count, "id");
  const std::string advice =
      "as root: usermod --add-" +
      path.substr(path.rfind('/') == std::string::npos ? 0
                                                       : path.rfind('/') + 1) +
      "s FIRST-LAST " + user + ", with 65536 ids that no other line has";
  if (*count == 0) {
    return Failed(path, why + ", so a task has no user but root", advice);
  }
  if (*count < kUsual) {
    return {Verdict::kWarning, path,
            why + ", and images use up to " + std::to_string(kUsual), advice};
  }
  return Fine(path, why);
}

Check CheckProgram(const ProgramFacts& facts) {
  const std::string what = "program " + facts.names;
  if (facts.path.empty()) {
    return Failed(what, "is not installed", "apt-get install " + facts.package);
  }
  if (!facts.privileged) {
    return Failed(what, facts.path + " is not set-user-ID root",
                  "apt-get install --reinstall " + facts.package +
                      ", and mount its file system without nosuid");
  }
  return Fine(what, facts.path);
}

Check CheckUserNamespaces(const NamespaceSwitches& switches) {
  const std::string what = "user namespaces";
  if (IsZero(switches.unprivileged_clone)) {
    return Failed(what, "kernel.unprivileged_userns_clone is 0",
                  "sysctl kernel.unprivileged_userns_clone=1, and write it to "
                  "/etc/sysctl.d");
  }
  if (IsZero(switches.most)) {
    return Failed(what, "user.max_user_namespaces is 0",
                  "sysctl user.max_user_namespaces=65536, and write it to "
                  "/etc/sysctl.d");
  }
  if (switches.apparmor_restricts && !IsZero(switches.apparmor_restricts)) {
    return Failed(what,
                  "AppArmor restricts those of ordinary users "
                  "(kernel.apparmor_restrict_unprivileged_userns)",
                  "give mountd-task-shim and crun an AppArmor profile with "
                  "\"userns,\", or sysctl "
                  "kernel.apparmor_restrict_unprivileged_userns=0");
  }
  return Fine(what, "ordinary users may make them");
}

Check CheckBridgeModule(bool found) {
  const std::string what = "kernel module bridge";
  if (found) {
    return Fine(what, "Nomad finds it");
  }
  return Failed(what,
                "Nomad does not find it, and places no job with mode "
                "\"bridge\"",
                "install the kernel's modules; if the kernel has it built in, "
                "add kernel/net/bridge/bridge.ko to "
                "/lib/modules/RELEASE/modules.builtin");
}

Check CheckNomadUnit(const NomadUnit& unit, const std::string& user) {
  if (unit.load != "loaded") {
    return Failed(kUnit, unit.load.empty() ? "not-found" : unit.load,
                  "install Nomad's package, or copy "
                  "/usr/share/mountd-nomad/nomad.service to "
                  "/etc/systemd/system");
  }
  if (unit.user != user) {
    const std::string runs = unit.user.empty() ? "root" : unit.user;
    return Failed(kUnit, "runs as " + runs + ", and you are " + user,
                  runs == "root"
                      ? std::string(kInstall) +
                            ", which has a drop-in for it, then "
                            "systemctl daemon-reload"
                      : "runuser -u " + runs + " -- mountctl doctor --nomad");
  }
  if (!unit.delegate) {
    return Failed(kUnit, "has no Delegate=yes, so tasks have no cgroups",
                  "systemctl edit nomad.service: [Service] Delegate=yes");
  }
  if (unit.active != "active") {
    return {Verdict::kWarning, kUnit, unit.active,
            unit.active == "failed" ? "read journalctl -u nomad.service"
                                    : "systemctl enable --now nomad.service"};
  }
  return Fine(kUnit, "active, as " + user);
}

std::string VariableOf(const NomadUnit& unit, std::string_view name) {
  const std::string prefix = std::string(name) + "=";
  std::string value;
  for (const std::string& one : unit.environment) {
    if (one.starts_with(prefix)) {
      value = one.substr(prefix.size());  // the last one counts
    }
  }
  return value;
}

Check CheckNomadCgroup(const CgroupFacts& facts) {
  const std::string what = "cgroup";
  if (!facts.exists) {
    return {Verdict::kUnknown, what,
            facts.path + " is there only while nomad.service runs", ""};
  }
  if (!facts.delegated) {
    return Failed(what, facts.path + " is not delegated to you",
                  "systemctl edit nomad.service: [Service] Delegate=yes, then "
                  "restart it");
  }
  const std::vector<std::string> missing =
      MissingControllers(facts.controllers);
  if (!missing.empty()) {
    return {Verdict::kWarning, what,
            facts.path + " has no controller " + Join(missing) +
                ", so tasks have no such limit",
            "boot with systemd.unified_cgroup_hierarchy=1"};
  }
  return Fine(what, facts.path + " is delegated, with " + facts.controllers);
}

Check CheckNames(const std::string& what, const std::string& directory,
                 const std::vector<std::string>& missing) {
  if (missing.empty()) {
    return Fine(what, directory);
  }
  return Failed(what, directory + " has no program " + Join(missing), kInstall);
}

Check CheckIptables(const std::string& found, const std::string& wanted) {
  const std::string what = "iptables";
  if (found == wanted) {
    return Fine(what, "the client finds " + found);
  }
  const std::string directory = wanted.substr(0, wanted.rfind('/'));
  return Failed(
      what,
      (found.empty() ? "the client finds none" : "the client finds " + found) +
          ", and jobs with mode \"bridge\" fail",
      "systemctl edit nomad.service: [Service] Environment=PATH=" + directory +
          ":/usr/sbin:/usr/bin:/sbin:/bin");
}

Check CheckOwnDirectory(const std::string& what, const DirectoryFacts& facts,
                        const std::string& advice) {
  if (!facts.exists) {
    return Failed(what, facts.path + " does not exist", advice);
  }
  if (!facts.writable) {
    return Failed(what, "you may not write to " + facts.path, advice);
  }
  return Fine(what, facts.path);
}

}  // namespace mountd::agent
