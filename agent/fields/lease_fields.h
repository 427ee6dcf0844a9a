// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <tuple>

#include "agent/fields/field.h"
#include "agent/types_leases.h"

// The field lists of leases and fences.
namespace mountd::agent {

template <>
struct FieldsOf<Lease> {
  static constexpr auto kList = std::tuple(
      Key("lease", &Lease::lease), Key("uid", &Lease::uid),
      Key("allocation", &Lease::allocation), Key("scope", &Lease::scope),
      Key("kind", &Lease::kind), Key("timeout_ms", &Lease::timeout_ms),
      Key("on_lapse", &Lease::on_lapse), Key("stop_tasks", &Lease::stop_tasks),
      Key("state", &Lease::state),
      Key("deadline_boottime", &Lease::deadline_boottime),
      Key("reason", &Lease::reason), Key("traceparent", &Lease::traceparent),
      Key("request_id", &Lease::request_id));
};

template <>
struct FieldsOf<Fence> {
  static constexpr auto kList = std::tuple(
      Key("allocation", &Fence::allocation), Key("lease", &Fence::lease),
      Key("uid", &Fence::uid), Key("state", &Fence::state),
      Key("volumes_detached", &Fence::volumes_detached),
      Key("lifted", &Fence::lifted), Key("lapse_reason", &Fence::lapse_reason),
      Key("on_lapse", &Fence::on_lapse), Key("stop_tasks", &Fence::stop_tasks),
      Key("had_tasks", &Fence::had_tasks), Key("copies", &Fence::copies),
      Key("handed_out", &Fence::handed_out), Key("error", &Fence::error),
      Key("attempts", &Fence::attempts), Key("boot_id", &Fence::boot_id),
      Key("lapsed_boottime", &Fence::lapsed_boottime),
      Key("lapsed_at", &Fence::lapsed_at),
      Key("tasks_stopped_boottime", &Fence::tasks_stopped_boottime),
      Key("tasks_stopped_at", &Fence::tasks_stopped_at),
      Key("searched_boottime", &Fence::searched_boottime),
      Key("searched_at", &Fence::searched_at),
      Key("done_boottime", &Fence::done_boottime),
      Key("done_at", &Fence::done_at), Key("traceparent", &Fence::traceparent),
      Key("request_id", &Fence::request_id));
};

template <>
struct FieldsOf<LeaseChange> {
  static constexpr auto kList = std::tuple(
      Key("change", &LeaseChange::change), Key("reason", &LeaseChange::reason),
      Key("allocation", &LeaseChange::allocation),
      Key("traceparent", &LeaseChange::traceparent),
      Key("request_id", &LeaseChange::request_id));
};

}  // namespace mountd::agent
