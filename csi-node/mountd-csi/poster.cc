// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/mountd-csi/poster.h"

#include <sys/eventfd.h>

#include <cstdlib>
#include <utility>

namespace mountd::csi {

// EFD_NONBLOCK, because RunPosted reads the counter even if it is 0, and a post
// must not wait.
Poster::Poster() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_.valid()) {
    std::abort();  // only at the start, before there is any work to lose
  }
}

void Poster::Post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(work));
  }
  // The write fails only if the counter is full, and then the loop is awake
  // anyway.
  static_cast<void>(::eventfd_write(wake_.get(), 1));
}

void Poster::RunPosted() {
  eventfd_t count = 0;
  static_cast<void>(::eventfd_read(wake_.get(), &count));
  std::vector<std::function<void()>> work;
  {
    const std::lock_guard lock(mutex_);
    work.swap(posted_);
  }
  for (const std::function<void()>& item : work) {
    item();
  }
}

}  // namespace mountd::csi
