// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

// Makes a pipe(2) whose ends are close-on-exec and block. `object` is for the
// error.
inline Result<Pipe> MakePipe(const std::string& object) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return ErrnoError(errno, "pipe2", object);
  }
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace mountd
