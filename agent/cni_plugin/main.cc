// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd's networks as a CNI plugin of the type "mountd".
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "agent/cni_plugin/environment.h"
#include "agent/cni_plugin/run.h"

namespace {

// Nothing of ours ever gets the number of a standard fd that is missing.
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

// As the CNI project's own plugins tell it, for whoever runs it by hand.
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
  // A runtime that hangs up gets an exit status all the same.
  std::signal(SIGPIPE, SIG_IGN);
  const auto answer = mountd::cni_plugin::RunPlugin(
      environment, mountd::cni_plugin::ReadInput(STDIN_FILENO));
  std::fputs(answer.output.c_str(), stdout);
  return std::fflush(stdout) == 0 ? answer.status : EXIT_FAILURE;
}
