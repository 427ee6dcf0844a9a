// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::bench {

struct Pipe {
  UniqueFd out;
  UniqueFd in;
};

inline Result<Pipe> MakePipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return ErrnoError(errno, "pipe2", "");
  }
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace mountd::bench
