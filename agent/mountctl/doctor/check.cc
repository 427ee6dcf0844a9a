// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/doctor/check.h"

#include <algorithm>

#include "agent/mountctl/output/output.h"

namespace mountd::agent {

Check NotTold(std::string what, const Error& error) {
  const std::string why = error.detail.empty() ? error.Message() : error.detail;
  if (error.code == Code::kPermissionDenied ||
      error.code == Code::kNotSupported) {
    return {Verdict::kUnknown, std::move(what),
            std::string(CodeName(error.code)) + ": " + why, ""};
  }
  return {Verdict::kFailed, std::move(what),
          std::string(CodeName(error.code)) + ": " + why,
          "read journalctl -u mountd.service"};
}

Check NotSeen(std::string what, const Error& error) {
  return {Verdict::kUnknown, std::move(what), error.Message(), ""};
}

std::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kWarning:
      return "warning";
    case Verdict::kFailed:
      return "failed";
    case Verdict::kUnknown:
      break;
  }
  return "unknown";
}

std::string LineOf(const Check& check) {
  constexpr std::size_t kVerdictWidth = 9;
  std::string line(VerdictName(check.verdict));
  line.resize(kVerdictWidth, ' ');
  line += check.what + ": " + check.why;
  if (!check.advice.empty()) {
    line += "; " + check.advice;
  }
  return Printable(line);
}

Json ToJson(const Check& check) {
  return {{"verdict", VerdictName(check.verdict)},
          {"what", check.what},
          {"why", check.why},
          {"advice", check.advice}};
}

bool AnyFailed(const std::vector<Check>& checks) {
  return std::any_of(checks.begin(), checks.end(), [](const Check& check) {
    return check.verdict == Verdict::kFailed;
  });
}

}  // namespace mountd::agent
