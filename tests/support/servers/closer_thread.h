// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/socket.h>

#include <array>
#include <thread>
#include <utility>

#include "dbus/receive/foreign_fds.h"
#include "mountd/closer/closer.h"

namespace mountd::test {

// Connects to a mountd-closer that runs on a thread of this process, one thread
// for each connection. Tests that use it cannot show what happens to fds when
// mountd itself ends, because both ends share one table of fds.
inline dbus::ForeignFds::Connector CloserInThread() {
  return []() -> Result<UniqueFd> {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) !=
        0) {
      return ErrnoError(errno, "socketpair", "closer");
    }
    std::thread([end = ends[1]] {
      closer::Closer(UniqueFd(end)).Run();
    }).detach();
    return UniqueFd(ends[0]);
  };
}

}  // namespace mountd::test
