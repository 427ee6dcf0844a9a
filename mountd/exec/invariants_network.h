// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <utility>

#include "mountd/config/config.h"
#include "mountd/plan/message.h"

// The part of CheckRequest (invariants.h) on networks, and the parts that both
// share. All checks fail with InvalidArgument.
namespace mountd::exec {

inline Error Invalid(const char* field, std::string why = "is not valid") {
  return MakeError(Code::kInvalidArgument, "check plan", field, std::move(why));
}

Result<void> CheckName(const WireName& name, const char* field);

// Checks a request of one of the kinds on networks.
Result<void> CheckNetworkRequest(const Request& request, const Config& config);

}  // namespace mountd::exec
