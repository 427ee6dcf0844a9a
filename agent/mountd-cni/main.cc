// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd's networks as CNI plugins: as one of the type "mountd", and under the
// names of the plugins of Nomad's own chain.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "agent/mountd-cni/environment.h"
#include "agent/mountd-cni/personality.h"
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
int TellAbout(const std::string& program) {
  using mountd::cni_plugin::Personality;
  const auto own = mountd::cni_plugin::FindPersonality(program);
  const std::string text = mountd::cni_plugin::AboutText(
      own.value_or(Personality::kMountd), MOUNTD_VERSION);
  std::fputs(text.c_str(), stderr);
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  if (!FillStandardFds()) {
    return EXIT_FAILURE;
  }
  const auto environment =
      mountd::cni_plugin::ProcessEnvironment(argc > 0 ? argv[0] : "");
  if (environment.command.empty()) {
    return TellAbout(environment.program);
  }
  // Ignores SIGPIPE, so that a runtime that hangs up still gets an exit status.
  std::signal(SIGPIPE, SIG_IGN);
  const auto answer = mountd::cni_plugin::RunPlugin(
      environment, mountd::cni_plugin::ReadInput(STDIN_FILENO));
  std::fputs(answer.warning.c_str(), stderr);
  std::fputs(answer.output.c_str(), stdout);
  // A failed write shows at the latest in fflush.
  return std::fflush(stdout) == 0 ? answer.status : EXIT_FAILURE;
}
