// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/methods/answers_to_dict.h"

namespace mountd::dbus {
namespace {

std::string OnLapseName(OnLapse on_lapse) {
  return on_lapse == OnLapse::kKeep ? "keep" : "release";
}

std::string TaskStopName(exec::TaskStop stop) {
  switch (stop) {
    case exec::TaskStop::kFreeze:
      return "freeze";
    case exec::TaskStop::kKill:
      return "kill";
    case exec::TaskStop::kNo:
      break;
  }
  return "no";
}

void AddTime(const std::string& step, const FenceTime& time, Dict* dict) {
  dict->emplace(step + "_boottime", Value(time.boot_us));
  dict->emplace(step + "_at", Value(time.wall_us));
}

}  // namespace

Dict ToDict(const LeaseRecord& lease) {
  return {{"lease", Value(lease.key.name)},
          {"uid", Value(lease.key.uid)},
          {"allocation", Value(lease.allocation)},
          {"scope", Value(lease.scope)},
          {"kind", Value(std::string(
                       lease.kind == LeaseKind::kPipe ? "pipe" : "heartbeat"))},
          {"timeout_ms", Value(lease.timeout_ms)},
          {"on_lapse", Value(OnLapseName(lease.on_lapse))},
          {"stop_tasks", Value(TaskStopName(lease.stop_tasks))},
          {"state", Value(std::string(
                        lease.state == LeaseState::kHeld ? "held" : "lapsed"))},
          {"deadline_boottime", Value(lease.deadline_boot_us)},
          {"reason", Value(lease.reason)},
          {"traceparent", Value(lease.traceparent)},
          {"request_id", Value(lease.request_id)}};
}

Dict ToDict(const FenceRecord& fence) {
  Dict dict = {
      {"allocation", Value(fence.allocation)},
      {"lease", Value(fence.lease.name)},
      {"uid", Value(fence.lease.uid)},
      {"lapse_reason", Value(fence.lapse_reason)},
      {"on_lapse", Value(OnLapseName(fence.on_lapse))},
      {"stop_tasks", Value(TaskStopName(fence.stop_tasks))},
      {"state", Value(std::string(
                    fence.state == FenceState::kDone ? "done" : "fencing"))},
      {"lifted", Value(fence.lifted)},
      {"had_tasks", Value(fence.had_tasks)},
      {"copies", Value(fence.copies)},
      {"handed_out", Value(fence.handed_out)},
      {"volumes_detached", Value(fence.volumes_detached)},
      {"error", Value(fence.error)},
      {"attempts", Value(fence.attempts)},
      {"boot_id", Value(fence.boot_id)},
      {"traceparent", Value(fence.traceparent)},
      {"request_id", Value(fence.request_id)}};
  AddTime("lapsed", fence.lapsed, &dict);
  AddTime("tasks_stopped", fence.tasks_stopped, &dict);
  AddTime("searched", fence.searched, &dict);
  AddTime("done", fence.done, &dict);
  return dict;
}

}  // namespace mountd::dbus
