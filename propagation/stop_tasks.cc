// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/stop_tasks.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "mountd/base/paths.h"
#include "propagation/ground/cgroup.h"

namespace mountd::propagation {
namespace {

using exec::FailedWith;
using exec::Sys;
using exec::TaskStop;
using StopClock = std::chrono::steady_clock;

// Returns the name of the cgroup's file that stops the tasks.
const char* StopFile(TaskStop how) {
  return how == TaskStop::kKill ? "cgroup.kill" : "cgroup.freeze";
}

// Asks only the rules of the lease's owner, because another user's right must
// not stop this user's tasks, nor the other way round.
Result<void> CheckMayStop(const Context& context, const Cgroup& cgroup,
                          const exec::StopTasksPlan& plan) {
  const auto gids = std::span(plan.owner.gids).first(plan.owner.gid_count);
  const bool granted =
      std::any_of(context.config.rules.begin(), context.config.rules.end(),
                  [&](const RuleConfig& rule) {
                    return Applies(rule, plan.owner.uid, gids) &&
                           AllowsStop(rule, cgroup.path, plan.how);
                  });
  return granted ? Ok()
                 : Result<void>(MakeError(
                       Code::kPermissionDenied, "stop tasks", cgroup.path,
                       "no rule of user " + std::to_string(plan.owner.uid) +
                           " grants it; it needs stop_tasks beside cgroups in "
                           "mountd.toml"));
}

// Returns whether the path leads into a service of mountd's. systemd names the
// cgroup of a service as the unit, and puts the instances of a template into a
// slice of their own, such as system-mountd\x2dexec.slice.
bool IsInServiceOfMountd(const std::string& path) {
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = std::string_view(path).substr(at, end - at);
    if (part == "mountd.service" || part.starts_with("system-mountd\\x2d") ||
        (part.starts_with("mountd-") && part.ends_with(".service"))) {
      return true;
    }
    at = end + 1;
  }
  return false;
}

// Refuses the executor's own cgroup and those above it, and all of mountd's
// other services. A stopped executor would never answer, and a frozen mountd
// would serve nobody.
Result<void> CheckIsOthers(const Context& context, const Cgroup& cgroup) {
  MOUNTD_ASSIGN(const Process self,
                OpenProcess(context, static_cast<std::uint32_t>(::getpid())));
  MOUNTD_ASSIGN(const std::string own, CgroupPathOf(context, self));
  return paths::IsAtOrBelow(own, cgroup.path) ||
                 IsInServiceOfMountd(cgroup.path)
             ? Result<void>(MakeError(Code::kFailedPrecondition, "stop tasks",
                                      cgroup.path,
                                      "mountd's own processes are in it"))
             : Ok();
}

// A cgroup that was removed has no processes. ENODEV means that it was removed
// after its file was opened.
bool IsRemoved(int error) { return error == ENOENT || error == ENODEV; }

// Writes with the rights of the file's owner, because a user owns the cgroups
// that the user made, and the executor cannot override modes.
Result<void> WriteStop(const Context& context, const Cgroup& cgroup,
                       TaskStop how) {
  const char* const file = StopFile(how);
  const Sys<exec::FileFacts> facts =
      context.kernel.Stat(cgroup.dir.get(), file);
  if (!facts && facts.error() != ENOENT) {
    return ErrnoError(facts.error(), "statx", cgroup.path + "/" + file);
  }
  if (!facts) {
    // Only the root cgroup, a removed one, and an old kernel's has no such
    // file.
    MOUNTD_ASSIGN(const CgroupEvents events, ReadEvents(context, cgroup));
    return events.populated
               ? Result<void>(MakeError(Code::kNotSupported, "stop tasks",
                                        cgroup.path + "/" + file,
                                        "the cgroup has no such file"))
               : Ok();
  }
  const Sys<void> written =
      context.kernel.WriteAs(cgroup.dir.get(), file, facts->uid, "1");
  if (FailedWith(written, EOPNOTSUPP)) {
    return MakeError(Code::kNotSupported, "stop tasks",
                     cgroup.path + "/" + file, "the cgroup is threaded");
  }
  return written || IsRemoved(written.error())
             ? Ok()
             : Result<void>(ErrnoError(written.error(), "write",
                                       cgroup.path + "/" + file));
}

}  // namespace

Result<exec::StopTasksState> StopTasks(const Context& context,
                                       const exec::StopTasksPlan& plan) {
  constexpr std::chrono::milliseconds kMostPause(50);
  const StopClock::time_point deadline =
      StopClock::now() + std::chrono::milliseconds(plan.budget_ms);
  const bool kills = plan.how == TaskStop::kKill;
  // A fence whose rule is gone must not wait for a cgroup that is gone or
  // empty.
  MOUNTD_ASSIGN(const Cgroup cgroup, OpenAnyCgroup(context, plan.cgroup));
  MOUNTD_ASSIGN(CgroupEvents events, ReadEvents(context, cgroup));
  exec::StopTasksState state;
  if (Result<void> may = CheckMayStop(context, cgroup, plan); !may) {
    return events.populated
               ? Result<exec::StopTasksState>(std::move(may).error())
               : state;
  }
  MOUNTD_TRY(CheckIsOthers(context, cgroup));
  state.had_processes = events.populated ? 1 : 0;
  // Write again and again, because processes may join the cgroup after a write,
  // and the kernel does not limit how many. So poll(2) on the file is not
  // enough.
  for (std::chrono::milliseconds pause(1);;
       pause = std::min(2 * pause, kMostPause)) {
    MOUNTD_TRY(WriteStop(context, cgroup, plan.how));
    MOUNTD_ASSIGN(events, ReadEvents(context, cgroup));
    if (kills ? !events.populated : events.frozen) {
      return state;
    }
    if (StopClock::now() >= deadline) {
      return MakeError(Code::kBusy, "stop tasks", cgroup.path,
                       kills ? "some of its processes have not ended in time"
                             : "some of its processes have not frozen in time");
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace mountd::propagation
