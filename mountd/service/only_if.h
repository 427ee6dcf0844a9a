// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string_view>

#include "mountd/service/service_parts.h"

namespace mountd {

// The condition of a release. One agent ends a network, and another
// agent's volumes may come into the same allocation at any moment; only mountd
// can look and release without a gap.
enum class OnlyIf {
  kAny,
  kUnused,  // without volumes, mounts, open inboxes and plugins of its own
  kEmpty,   // as kUnused, and without networks
};

// Parses "", "unused" or "empty".
Result<OnlyIf> ParseOnlyIf(std::string_view name);

// Busy, with some of the objects that are in the way, if the allocation is not
// such a one. Runs on the allocation's strand.
Result<void> CheckOnlyIf(const ServiceParts& parts,
                         const AllocationRecord& record, OnlyIf only_if);

}  // namespace mountd
