// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::bench {

// Measures the least that two processes need for a question and an answer over
// a Unix socket: one message each way, as long as those of an empty method,
// with blocking calls, and without reading their content.
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
