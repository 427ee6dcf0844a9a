// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "mountd/base/unique_fd.h"

namespace mountd::csi {

// Brings work from gRPC's thread to the loop: that thread posts, the loop runs.
// All other work of this process happens on the loop's thread.
class Poster {
 public:
  Poster();

  // Any thread may call this.
  void Post(std::function<void()> work);

  // The loop's thread only. The fd is readable while there is work to run.
  int fd() const { return wake_.get(); }
  void RunPosted();

 private:
  UniqueFd wake_;
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;  // mutex_
};

}  // namespace mountd::csi
