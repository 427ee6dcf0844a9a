// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/oci/host_namespaces.h"

#include <sys/resource.h>
#include <unistd.h>

#include <system_error>
#include <utility>

namespace mountd::driver {
namespace {

// Lowers the priority of this thread and of the programs that it starts, so
// that making spare namespaces does not slow down the start of a task. Linux
// has a priority for each thread (setpriority(2)).
void GiveWay() {
  constexpr int kLowest = 19;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kLowest);
}

}  // namespace

HostNamespaces::~HostNamespaces() {
  if (maker_.joinable()) {
    maker_.join();
  }
}

Result<int> HostNamespaces::Shared() {
  const std::lock_guard lock(shared_mutex_);
  if (!shared_.valid()) {
    if (!maps_) {
      return maps_.error();
    }
    MOUNTD_ASSIGN(NewNamespaces made, MakeNamespaces(*maps_, WithNetwork::kNo));
    shared_ = std::move(made.user);
  }
  return shared_.get();
}

Result<void> HostNamespaces::Check() const {
  if (!maps_) {
    return maps_.error();
  }
  MOUNTD_TRY(MakeNamespaces(*maps_, WithNetwork::kNo));
  return Ok();
}

Result<NewNamespaces> HostNamespaces::Take() {
  if (!maps_) {
    return maps_.error();
  }
  {
    const std::lock_guard lock(mutex_);
    if (auto taken = std::exchange(spare_, std::nullopt)) {
      return *std::move(taken);
    }
  }
  return MakeNamespaces(*maps_, WithNetwork::kYes);
}

void HostNamespaces::PrepareNext() {
  if (!keeps_spare_ || !maps_) {
    return;
  }
  const std::lock_guard lock(mutex_);
  if (spare_ || is_making_) {
    return;
  }
  if (maker_.joinable()) {
    maker_.join();  // it has nothing more to do
  }
  try {
    maker_ = std::thread([this] { MakeSpare(); });
    is_making_ = true;
  } catch (const std::system_error&) {
    // The user has reached the limit of threads. Take makes the namespaces
    // instead.
  }
}

void HostNamespaces::MakeSpare() {
  GiveWay();
  auto made = MakeNamespaces(*maps_, WithNetwork::kYes);
  const std::lock_guard lock(mutex_);
  is_making_ = false;
  if (made) {
    spare_ = *std::move(made);
  }
}

}  // namespace mountd::driver
