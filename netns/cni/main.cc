// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "mountd/base/one_line.h"
#include "netns/cni/cgroup.h"
#include "netns/cni/guard.h"
#include "netns/cni/options.h"
#include "netns/cni/runner.h"

namespace {

constexpr int kBadUsage = 2;

// Opens /dev/null for standard fds that are missing, so that no other file gets
// the number of one.
bool HasStandardFds() {
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

}  // namespace

int main(int argc, char** argv) {
  if (!HasStandardFds()) {
    return EXIT_FAILURE;
  }
  const auto options = mountd::cni::ParseOptions(argc, argv);
  if (!options) {
    std::fprintf(stderr, "mountd-cni-run: %s\n%s",
                 mountd::OnOneLine(options.error().Message()).c_str(),
                 mountd::cni::kUsage);
    return kBadUsage;
  }
  if (options->help) {
    std::fputs(mountd::cni::kUsage, stdout);
    return EXIT_SUCCESS;
  }
  // Close every other inherited fd, so that no plugin gets one.
  ::close_range(STDERR_FILENO + 1, ~0U, 0);
  ::umask(S_IRWXG | S_IRWXO);
  const auto cgroup = mountd::cni::PluginCgroup::Make();
  return mountd::cni::RunGuarded(cgroup, [&](int stop) {
    return mountd::cni::RunOperation(*options, cgroup, STDIN_FILENO,
                                     STDOUT_FILENO, stop);
  });
}
