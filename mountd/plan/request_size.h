// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <algorithm>
#include <cstddef>

#include "mountd/plan/message.h"

namespace mountd::exec {

// The size of the largest body but PortsPlan, which holds two sets of ports.
inline constexpr std::size_t kUsualBodyBytes = std::max({
#define MOUNTD_SIZE_OF_BODY(type, name) sizeof(type),
    MOUNTD_USUAL_PLAN_BODIES(MOUNTD_SIZE_OF_BODY)
#undef MOUNTD_SIZE_OF_BODY
});
static_assert(sizeof(PlanBody) == sizeof(PortsPlan),
              "no usual body is larger than the ports");

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
