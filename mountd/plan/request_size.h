// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <algorithm>
#include <cstddef>

#include "mountd/plan/message.h"

namespace mountd::exec {

// The size of the largest body but PortsPlan, which holds two sets of ports.
// Every member of PlanBody stands here but that one.
inline constexpr std::size_t kUsualBodyBytes =
    std::max({sizeof(AllocationPlan),   sizeof(TargetPlan),
              sizeof(TaskPlan),         sizeof(AttachPlan),
              sizeof(OpenTreePlan),     sizeof(DetachPlan),
              sizeof(AnchorPlan),       sizeof(PluginPlan),
              sizeof(PluginSocketPlan), sizeof(VolumeDirPlan),
              sizeof(NetworkPlan),      sizeof(PrepareNetworksPlan),
              sizeof(NetworkFilePlan),  sizeof(NetworkWatchPlan),
              sizeof(CniPlan),          sizeof(CgroupPlan),
              sizeof(HoldersPlan),      sizeof(ProcessesPlan),
              sizeof(CopiesPlan),       sizeof(VerifyTaskPlan),
              sizeof(StopTasksPlan),    sizeof(TreePlan),
              sizeof(ProbePlan),        sizeof(VolumeProbePlan)});

inline constexpr std::size_t kUsualRequestBytes =
    offsetof(Request, body) + kUsualBodyBytes;
static_assert(kUsualRequestBytes <= sizeof(Request));

// Returns how many bytes of a request of this kind are sent, from its
// beginning. The ports of kUpdatePorts would make each other plan twice as
// large.
constexpr std::size_t BytesOf(PlanKind kind) {
  return kind == PlanKind::kUpdatePorts ? sizeof(Request) : kUsualRequestBytes;
}

}  // namespace mountd::exec
