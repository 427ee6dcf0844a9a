// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/agent/script.h"

#include <algorithm>
#include <utility>

namespace mountd::agent::test {

void Script::Fail(const std::string& method, Failure failure) {
  const std::lock_guard lock(mutex_);
  failures_[method].push_back(std::move(failure));
}

void Script::Garble(const std::string& method) {
  const std::lock_guard lock(mutex_);
  garbled_[method] = true;
}

void Script::Empty(const std::string& method) {
  const std::lock_guard lock(mutex_);
  emptied_[method] = true;
}

void Script::SetAllocations(std::vector<std::string> allocations) {
  const std::lock_guard lock(mutex_);
  allocations_ = std::move(allocations);
}

std::vector<std::string> Script::calls() {
  const std::lock_guard lock(mutex_);
  return calls_;
}

std::string Script::last_call() {
  const std::lock_guard lock(mutex_);
  return calls_.empty() ? "" : calls_.back();
}

std::size_t Script::count(const std::string& method) {
  std::size_t count = 0;
  for (const std::string& call : calls()) {
    count += call.starts_with(method + " ") ? 1U : 0U;
  }
  return count;
}

UniqueFd Script::TakeSecrets() {
  const std::lock_guard lock(mutex_);
  return std::move(secrets_);
}

void Script::Record(const std::string& line) {
  const std::lock_guard lock(mutex_);
  calls_.push_back(line);
  recorded_.notify_all();
}

void Script::HoldUntil(const std::string& method, const std::string& other,
                       std::size_t count, std::chrono::milliseconds most) {
  const std::lock_guard lock(mutex_);
  held_[method] = {other, count, most};
}

void Script::Hold(const std::string& method) {
  std::unique_lock lock(mutex_);
  const auto held = held_.find(method);
  if (held == held_.end()) {
    return;
  }
  const Held until = held->second;
  recorded_.wait_for(lock, until.most, [&] {
    return std::count_if(calls_.begin(), calls_.end(), [&](const auto& call) {
             return call.starts_with(until.other + " ");
           }) >= static_cast<std::ptrdiff_t>(until.count);
  });
}

bool Script::Next(const std::string& method, Failure& failure) {
  const std::lock_guard lock(mutex_);
  auto& queue = failures_[method];
  if (queue.empty()) {
    return false;
  }
  failure = std::move(queue.front());
  queue.pop_front();
  return true;
}

bool Script::garbled(const std::string& method) {
  const std::lock_guard lock(mutex_);
  return garbled_[method];
}

bool Script::emptied(const std::string& method) {
  const std::lock_guard lock(mutex_);
  return emptied_[method];
}

std::vector<std::string> Script::allocations() {
  const std::lock_guard lock(mutex_);
  return allocations_;
}

void Script::KeepSecrets(UniqueFd fd) {
  const std::lock_guard lock(mutex_);
  secrets_ = std::move(fd);
}

}  // namespace mountd::agent::test
