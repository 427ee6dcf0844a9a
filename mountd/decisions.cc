// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/decisions.h"

namespace mountd {

void Decisions::AllowedByRule(std::uint32_t line) {
  const std::lock_guard lock(mutex_);
  lines_.insert(line);
}

std::string Decisions::Rules() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const std::uint32_t line : lines_) {
    text += (text.empty() ? "" : ",") + std::to_string(line);
  }
  return text;
}

}  // namespace mountd
