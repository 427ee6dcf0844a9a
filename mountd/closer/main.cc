// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-closer owns the files that peers of mountd made, and receives the fds
// that peers send. mountd-closer closes these files in threads of its own, so
// that no other process waits (closer.h). systemd starts one mountd-closer for
// each connection from mountd (mountd-closer.socket).
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "mountd/base/accounts.h"
#include "mountd/base/fd_limit.h"
#include "mountd/base/out_of_memory.h"
#include "mountd/base/unique_fd.h"
#include "mountd/closer/closer.h"

namespace {

constexpr int kConnection = 3;  // SD_LISTEN_FDS_START

int Fail(const char* why) {
  std::fprintf(stderr, "mountd-closer: %s\n", why);
  return EXIT_FAILURE;
}

}  // namespace

int main() {
  mountd::EndWhenOutOfMemory("mountd-closer");
  // Ignore requests to end, because mountd-closer ends after mountd. If it
  // ended earlier, mountd would have the last reference to peers' files.
  std::signal(SIGTERM, SIG_IGN);
  std::signal(SIGINT, SIG_IGN);
  const rlimit none{0, 0};
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 ||
      ::setrlimit(RLIMIT_CORE, &none) != 0) {
    return Fail("cannot turn off its own core dumps");
  }
  mountd::RaiseFdLimit();
  mountd::UniqueFd connection(kConnection);
  const mountd::Result<uid_t> mountd = mountd::FindUser("mountd");
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (!mountd ||
      ::getsockopt(kConnection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
      peer.uid != *mountd) {
    return Fail("its connection (fd 3) does not belong to the user mountd");
  }
  mountd::closer::Closer(std::move(connection)).Run();
  // Closer has closed all files, so nothing is left for destructors.
  std::_Exit(EXIT_SUCCESS);
}
