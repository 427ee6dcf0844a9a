// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/task_mounts.h"

#include <algorithm>
#include <utility>

namespace mountd {
namespace {

// Returns what is wrong with the propagation of the task's mount; "" if it is
// as requested.
std::string LostPropagation(const MountRecord& record,
                            const exec::TaskMount& seen,
                            bool has_own_user_namespace) {
  switch (record.wish.propagation) {
    case exec::Propagation::kPrivate:
      return "";
    case exec::Propagation::kHostToTask:
      return seen.master != 0 && seen.master == record.master
                 ? ""
                 : "host-to-task is lost, because the runtime's "
                   "rootfsPropagation is private";
    case exec::Propagation::kBidirectional:
      break;
  }
  if (seen.peer_group != 0 && seen.peer_group == record.peer_group) {
    return "";
  }
  if (seen.master == 0 || seen.master != record.peer_group) {
    return "bidirectional is lost, because the runtime's rootfsPropagation is "
           "private";
  }
  return has_own_user_namespace
             ? "the task's mounts cannot reach the host, because the task has "
               "its own user namespace"
             : "the task's mounts do not reach the host, because the runtime's "
               "rootfsPropagation is slave";
}

// Returns which requested attributes the task's mount lacks; "" if it has all.
std::string MissingAttributes(const MountRecord& record,
                              const exec::TaskMount& seen) {
  std::string missing;
  for (const exec::AttributeRow& row : exec::kAttributes) {
    if (row.confines && Has(record.wish.attributes, row) &&
        (seen.attributes & row.flag) == 0) {
      missing.append(missing.empty() ? "" : ", ").append(row.word);
    }
  }
  return missing.empty() ? missing : "the runtime removed " + missing;
}

std::pair<std::string, std::string> VerdictOn(const MountRecord& record,
                                              const exec::TaskMount& seen,
                                              bool has_own_user_namespace) {
  if (seen.exists_on_host == 0) {
    return {"gone", "it is no longer mounted on the host"};
  }
  if (seen.found == 0) {
    return {"missing", "it is not mounted in the task"};
  }
  if (seen.covered != 0) {
    return {"covered", "another mount covers it in the task"};
  }
  if (std::string missing = MissingAttributes(record, seen); !missing.empty()) {
    return {"weaker", std::move(missing)};
  }
  if (std::string lost = LostPropagation(record, seen, has_own_user_namespace);
      !lost.empty()) {
    return {"lost-propagation", std::move(lost)};
  }
  return {"ok", ""};
}

}  // namespace

bool TaskReport::ok() const {
  return std::all_of(
      mounts.begin(), mounts.end(),
      [](const TaskMountVerdict& mount) { return mount.verdict == "ok"; });
}

TaskMountVerdict Judge(const MountRecord& record, const exec::TaskMount& seen,
                       bool has_own_user_namespace) {
  auto [verdict, reason] = VerdictOn(record, seen, has_own_user_namespace);
  return {record.name,     std::move(verdict), std::move(reason),
          seen.attributes, seen.peer_group,    seen.master};
}

}  // namespace mountd
