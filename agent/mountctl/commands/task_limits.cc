// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/commands/task_limits.h"

#include <set>
#include <sstream>
#include <variant>

namespace mountd::agent {
namespace {

struct Limits {
  bool has_cgroup = false;
  std::set<std::string> controllers{};
  std::string reason{};
};

Limits LimitsOf(const driver::Fingerprint& fingerprint) {
  Limits limits;
  limits.reason = fingerprint.description;
  for (const auto& [name, value] : fingerprint.attributes) {
    if (name == "driver.oci.cgroup") {
      const bool* has = std::get_if<bool>(&value);
      limits.has_cgroup = has != nullptr && *has;
    } else if (name == "driver.oci.cgroup.controllers") {
      const auto* text = std::get_if<std::string>(&value);
      std::istringstream words(text == nullptr ? "" : *text);
      for (std::string word; words >> word;) {
        limits.controllers.insert(word);
      }
    }
  }
  return limits;
}

// Returns the controllers that the task's limits need.
std::set<std::string> NeededBy(const driver::TaskResources& resources) {
  std::set<std::string> needed;
  if (resources.memory_max != 0 || resources.memory_low != 0) {
    needed.insert("memory");
  }
  if (resources.cpu_weight != 0 || resources.cpu_quota_us != 0) {
    needed.insert("cpu");
  }
  if (resources.pids_max != 0) {
    needed.insert("pids");
  }
  if (!resources.cpuset.empty()) {
    needed.insert("cpuset");
  }
  return needed;
}

bool HasLimits(const Job& job) {
  for (const TaskSpec& task : job.tasks) {
    if (!NeededBy(task.config.resources).empty()) {
      return true;
    }
  }
  return false;
}

}  // namespace

Result<std::vector<std::string>> LimitsLeftOut(driver::TaskDriver& driver,
                                               const Job& job,
                                               const std::string& cgroup) {
  std::vector<std::string> lines;
  if (cgroup.empty() && !HasLimits(job)) {
    return lines;
  }
  MOUNTD_ASSIGN(const auto stream, driver.Fingerprints());
  MOUNTD_ASSIGN(const auto fingerprint, stream->Next());
  const Limits limits = LimitsOf(fingerprint.value_or(driver::Fingerprint()));
  if (!cgroup.empty() && !limits.has_cgroup) {
    return MakeError(
        Code::kFailedPrecondition, "run", cgroup,
        "tasks cannot have the cgroup " + cgroup + ": " + limits.reason);
  }
  for (const TaskSpec& task : job.tasks) {
    for (const std::string& needed : NeededBy(task.config.resources)) {
      if (limits.has_cgroup && limits.controllers.contains(needed)) {
        continue;
      }
      std::string line = task.config.name;
      line += ": " + needed + " is not limited";
      line += limits.has_cgroup
                  ? ", because the cgroup has no such controller"
                  : ", because the tasks have no cgroup (--cgroup)";
      lines.push_back(std::move(line));
    }
  }
  return lines;
}

}  // namespace mountd::agent
