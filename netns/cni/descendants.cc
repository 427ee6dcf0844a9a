// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/descendants.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/number.h"
#include "mountd/base/unique_fd.h"
#include "netns/cni/deadline.h"

namespace mountd::cni {
namespace {

// Returns the parent from /proc/<pid>/stat, "<pid> (<name>) <state> <parent>
// ...". Searches from the end, because the name may hold any byte
// (proc_pid_stat(5)).
std::optional<pid_t> ParentOf(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 512> buffer{};
  const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
  if (got <= 0) {
    return std::nullopt;
  }
  std::string_view text(buffer.data(), static_cast<std::size_t>(got));
  constexpr std::size_t kToParent = 4;  // ") S "
  const std::size_t end = text.rfind(')');
  if (end == std::string_view::npos || end + kToParent > text.size()) {
    return std::nullopt;
  }
  text.remove_prefix(end + kToParent);
  return ParseNumber<pid_t>(text.substr(0, text.find(' ')));
}

std::vector<pid_t> ChildrenOf(pid_t parent) {
  std::vector<pid_t> children;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"),
                                                 &::closedir);
  while (const dirent* entry = proc ? ::readdir(proc.get()) : nullptr) {
    const auto pid = ParseNumber<pid_t>(&entry->d_name[0]);
    if (pid && ParentOf(*pid) == parent) {
      children.push_back(*pid);
    }
  }
  return children;
}

}  // namespace

// A subreaper is the new parent of descendants whose parents end, so it can
// wait for them (prctl(2)).
bool AdoptOrphans() { return ::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0; }

bool KillDescendants(std::chrono::milliseconds grace) {
  const Deadline deadline = Deadline::After(grace);
  for (;;) {
    int status = 0;
    // __WALL also reaps children of clone(2) that send another signal at their
    // end.
    const pid_t ended = ::waitpid(-1, &status, WNOHANG | __WALL);
    if (ended > 0 || (ended < 0 && errno == EINTR)) {
      continue;
    }
    // ECHILD: no child is left.
    if (ended < 0) {
      return true;
    }
    if (deadline.Passed()) {
      return false;
    }
    // A child's pid cannot be another process's by now, because only this
    // process reaps it. Its own children become ours once it is dead.
    for (const pid_t child : ChildrenOf(::getpid())) {
      ::kill(child, SIGKILL);
    }
    ::poll(nullptr, 0, 1);
  }
}

}  // namespace mountd::cni
