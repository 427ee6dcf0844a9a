// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/closer/closes.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

namespace mountd::closer {

Closes::Closes() {
  shared_->emptied.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

int Closes::fd() const { return shared_->emptied.get(); }

void Closes::Add(std::uint64_t owner, UniqueFd fd) {
  const std::lock_guard lock(shared_->mutex);
  shared_->owners[owner].waiting.push_back(fd.release());
  ++shared_->pending;
  // Other owners may have fds and no thread yet. Start threads for them now.
  for (auto& [id, one] : shared_->owners) {
    StartThreads(shared_, id, one);
  }
}

// Starts the threads that the owner needs. A failure to start one is no error,
// because the fds wait for another thread.
void Closes::StartThreads(const std::shared_ptr<Shared>& shared,
                          std::uint64_t id, Owner& owner) {
  const std::size_t wanted =
      std::min(kThreadsOfOwner, owner.closing + owner.waiting.size());
  while (owner.threads < wanted && shared->threads < kMostThreads) {
    try {
      std::thread([shared, id] { Run(shared, id); }).detach();
    } catch (const std::system_error&) {
      return;
    }
    ++owner.threads;
    ++shared->threads;
  }
}

void Closes::Run(const std::shared_ptr<Shared>& shared, std::uint64_t id) {
  std::unique_lock lock(shared->mutex);
  // The entry exists while it counts at least one thread.
  Owner& owner = shared->owners.at(id);
  while (!owner.waiting.empty()) {
    const int fd = owner.waiting.front();
    owner.waiting.pop_front();
    ++owner.closing;
    lock.unlock();
    ::close(fd);
    lock.lock();
    --owner.closing;
    --shared->pending;
  }
  --shared->threads;
  if (--owner.threads == 0) {
    shared->owners.erase(id);
  }
  if (shared->owners.empty()) {
    ::eventfd_write(shared->emptied.get(), 1);
    return;
  }
  // This thread ends, so another owner may start one.
  for (auto& [other, one] : shared->owners) {
    StartThreads(shared, other, one);
  }
}

std::size_t Closes::PendingOf(std::uint64_t owner) const {
  const std::lock_guard lock(shared_->mutex);
  const auto found = shared_->owners.find(owner);
  return found == shared_->owners.end()
             ? 0
             : found->second.waiting.size() + found->second.closing;
}

std::size_t Closes::Pending() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->pending;
}

bool Closes::IsFull() const {
  const std::lock_guard lock(shared_->mutex);
  return std::any_of(shared_->owners.begin(), shared_->owners.end(),
                     [](const auto& one) { return one.second.threads == 0; });
}

}  // namespace mountd::closer
