// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/mountctl/json.h"
#include "mountd/base/error.h"

// What `mountctl doctor` finds. Each check is a function of what was seen, and
// sees nothing itself.
namespace mountd::agent {

// kUnknown: it could not be looked at, for want of rights mostly.
enum class Verdict { kOk, kWarning, kFailed, kUnknown };

struct Check {
  Verdict verdict = Verdict::kOk;
  std::string what;    // what was looked at: "socket", "plugin csi-local"
  std::string why;     // what was seen
  std::string advice;  // what to do; "" where there is nothing
};

inline Check Fine(std::string what, std::string why) {
  return {Verdict::kOk, std::move(what), std::move(why), ""};
}

// What was asked of mountd, and was not told: no failure of the node if the
// caller lacks the right to know.
Check NotTold(std::string what, const Error& error);
// What could not be looked at on the host, which is none of mountd's doing.
Check NotSeen(std::string what, const Error& error);

std::string_view VerdictName(Verdict verdict);
// "warning  plugin csi-local: is starting; wait", without control characters.
std::string LineOf(const Check& check);
Json ToJson(const Check& check);
// Whether any of them failed.
bool AnyFailed(const std::vector<Check>& checks);

}  // namespace mountd::agent
