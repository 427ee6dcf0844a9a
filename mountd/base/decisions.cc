// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/decisions.h"

namespace mountd {

void Decisions::AllowedByRule(std::uint32_t line) {
  const std::lock_guard lock(mutex_);
  lines_.insert(line);
}

void Decisions::AllowedBy(const std::string& authority) {
  const std::lock_guard lock(mutex_);
  authority_ = authority;
}

void Decisions::UsedAsAdministrator(std::uint32_t owner) {
  const std::lock_guard lock(mutex_);
  if (others_.size() <= kMostOthers) {
    others_.insert(owner);
  }
}

void Decisions::UsedAllAsAdministrator() {
  const std::lock_guard lock(mutex_);
  used_all_ = true;
}

std::string Decisions::Others() const {
  const std::lock_guard lock(mutex_);
  if (used_all_) {
    return "all";
  }
  std::string text;
  std::size_t count = 0;
  for (const std::uint32_t uid : others_) {
    text += (text.empty() ? "" : ",") +
            (++count > kMostOthers ? "..." : std::to_string(uid));
  }
  return text;
}

void Decisions::Denied() {
  const std::lock_guard lock(mutex_);
  others_.clear();
  used_all_ = false;
  lines_.clear();
  authority_.clear();
}

std::string Decisions::Rules() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const std::uint32_t line : lines_) {
    text += (text.empty() ? "" : ",") + std::to_string(line);
  }
  return authority_.empty() || text.empty() ? text + authority_
                                            : text + "," + authority_;
}

}  // namespace mountd
