// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd's networks as a CNI plugin of the type "mountd".
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "agent/mountd-cni/environment.h"
#include "agent/mountd-cni/run.h"

namespace {

// Fills missing standard fds, so that no file of this program ever gets one of
// their numbers.
bool FillStandardFds() {
  int fd = 0;
  while (fd <= STDERR_FILENO) {
    fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd < 0) {
      return false;
    }
  }
  ::close(fd);
  return true;
}

// Prints the same kind of text as the CNI project's own plugins, for a person
// who runs the program by hand.
int TellAbout() {
  std::fprintf(stderr,
               "CNI mountd plugin v" MOUNTD_VERSION
               "\nCNI protocol versions supported: 0.4.0, 1.0.0, 1.1.0\n");
  return EXIT_SUCCESS;
}

}  // namespace

int main() {
  if (!FillStandardFds()) {
    return EXIT_FAILURE;
  }
  const auto environment = mountd::cni_plugin::ProcessEnvironment();
  if (environment.command.empty()) {
    return TellAbout();
  }
  // Ignores SIGPIPE, so that a runtime that hangs up still gets an exit status.
  std::signal(SIGPIPE, SIG_IGN);
  const auto answer = mountd::cni_plugin::RunPlugin(
      environment, mountd::cni_plugin::ReadInput(STDIN_FILENO));
  std::fputs(answer.output.c_str(), stdout);
  // A failed write shows at the latest in fflush.
  return std::fflush(stdout) == 0 ? answer.status : EXIT_FAILURE;
}
