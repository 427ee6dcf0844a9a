// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/mountctl/output/json.h"
#include "mountd/base/error.h"

// The findings of `mountctl doctor`. Each check is a function of facts that
// others have collected; it collects none itself.
namespace mountd::agent {

// kUnknown: the check could not look, mostly because the caller lacks the
// right.
enum class Verdict { kOk, kWarning, kFailed, kUnknown };

struct Check {
  Verdict verdict = Verdict::kOk;
  std::string what;    // the object of the check: "socket", "plugin csi-local"
  std::string why;     // the facts
  std::string advice;  // what to do; "" if there is nothing to do
};

inline Check Fine(std::string what, std::string why) {
  return {Verdict::kOk, std::move(what), std::move(why), ""};
}

// Returns the check of a question that mountd did not answer. A caller without
// the right to know is no failure of the node.
Check NotTold(std::string what, const Error& error);
// Returns the check of a fact on the host that could not be read, without
// mountd.
Check NotSeen(std::string what, const Error& error);

std::string_view VerdictName(Verdict verdict);
// Returns "warning  plugin csi-local: is starting; wait", without control
// characters.
std::string LineOf(const Check& check);
Json ToJson(const Check& check);
// True if any check failed.
bool AnyFailed(const std::vector<Check>& checks);

}  // namespace mountd::agent
