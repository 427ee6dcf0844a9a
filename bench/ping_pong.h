// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::bench {

// What two processes need at least to ask and answer over a Unix socket: a
// message there and one back, as long as those of an empty method, with
// blocking calls and nothing read in them.
class PingPong {
 public:
  static Result<PingPong> Start();
  ~PingPong();
  PingPong(PingPong&& other) noexcept;
  PingPong& operator=(PingPong&&) = delete;

  Result<void> Call();

 private:
  PingPong(UniqueFd socket, pid_t child);

  UniqueFd socket_;
  pid_t child_;
};

}  // namespace mountd::bench
