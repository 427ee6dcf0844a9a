// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <algorithm>
#include <string_view>

#include "mountd/base/names.h"
#include "mountd/plan/mount_plans.h"

// Fills plans. Callers have checked names and paths, so each fits into its
// field. A text that is too long would be cut.
namespace mountd::exec {

inline WireName ToWire(std::string_view name) {
  WireName wire;
  const std::size_t size = std::min(name.size(), wire.bytes.size());
  std::copy_n(name.begin(), size, wire.bytes.begin());
  wire.size = static_cast<std::uint8_t>(size);
  return wire;
}

inline TargetPlan Target(std::string_view allocation, std::string_view task,
                         std::string_view name) {
  return {ToWire(allocation), ToWire(task), ToWire(name)};
}

inline ContainerPlan Container(std::uint64_t cgroup, std::string_view path,
                               std::uint32_t caller) {
  ContainerPlan plan;
  plan.cgroup = cgroup;
  plan.caller = caller;
  std::copy_n(path.begin(), std::min(path.size(), plan.path.size()),
              plan.path.begin());
  return plan;
}

}  // namespace mountd::exec
