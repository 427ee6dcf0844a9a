// SPDX-License-Identifier: LGPL-2.1-or-later
#include <ostream>

#include "agent/mountctl/output/output.h"

namespace mountd::agent {
namespace {

// Returns "-" for a step that has not ended.
std::string StepTime(std::uint64_t at_us) {
  return at_us == 0 ? "-" : Time(Timestamp(std::chrono::microseconds(at_us)));
}

std::string SubjectOf(const Lease& lease) {
  return lease.allocation.empty() ? "scope " + lease.scope
                                  : "allocation " + lease.allocation;
}

}  // namespace

void PrintLeases(std::ostream& out, const std::vector<Lease>& leases) {
  Table table({"LEASE", "UID", "BINDS", "KIND", "TIMEOUT", "ON LAPSE", "TASKS",
               "STATE", "REASON"});
  for (const Lease& lease : leases) {
    table.Add(
        {lease.lease, std::to_string(lease.uid), SubjectOf(lease), lease.kind,
         lease.timeout_ms == 0 ? "-" : std::to_string(lease.timeout_ms) + " ms",
         lease.on_lapse, lease.stop_tasks, lease.state, OrDash(lease.reason)});
  }
  table.Print(out);
}

void PrintFence(std::ostream& out, const Fence& fence) {
  out << "fence of " << Printable(fence.allocation) << '\n';
  PrintField(out, "lease", fence.lease);
  PrintField(out, "state", fence.state);
  PrintField(out, "detached", YesNo(fence.volumes_detached));
  PrintField(out, "lapse reason", fence.lapse_reason);
  PrintField(out, "on lapse", fence.on_lapse);
  PrintField(out, "stop tasks", fence.stop_tasks);
  PrintField(out, "had tasks", YesNo(fence.had_tasks));
  PrintField(out, "copies", fence.copies);
  PrintField(out, "handed out", std::to_string(fence.handed_out));
  PrintField(out, "lapsed", StepTime(fence.lapsed_at));
  PrintField(out, "tasks stopped", StepTime(fence.tasks_stopped_at));
  PrintField(out, "searched", StepTime(fence.searched_at));
  PrintField(out, "done", StepTime(fence.done_at));
  PrintField(out, "lifted", YesNo(fence.lifted));
  PrintField(out, "attempts", std::to_string(fence.attempts));
  PrintField(out, "error", fence.error);
  PrintNames(out, fence.traceparent, fence.request_id);
}

}  // namespace mountd::agent
