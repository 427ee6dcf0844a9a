// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/node/daemon_fds.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "netns/plans/namespace_pool.h"
#include "tests/support/node/node.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;

// Returns "socket" for "socket:[4711]", "anon_inode:[eventfd]" as it is, and
// "file" for a path.
std::string KindOf(const std::string& target) {
  if (target.starts_with("/")) {
    return target.starts_with("/memfd:") ? "memfd" : "file";
  }
  return target.starts_with("anon_inode:") ? target
                                           : target.substr(0, target.find(':'));
}

constexpr char kReady[] = "mountd-exec net";

// Removes the namespaces that an executor keeps ready, each with one socket,
// because a busy machine makes it keep more of them for a while.
void LeaveOutReady(DaemonFds* fds) {
  const auto ready = fds->find(kReady);
  if (ready != fds->end()) {
    (*fds)["mountd-exec socket"] -= ready->second;
  }
}

long SlackOf(const std::string& kind) {
  constexpr long kSlack = 8;
  constexpr long kMostReady = netns::NamespacePool::kMost;
  return kind == kReady ? kSlack + kMostReady : kSlack;
}

DaemonFds FdsOf(const std::string& name, pid_t pid) {
  DaemonFds fds;
  std::error_code gone;
  for (fs::directory_iterator it("/proc/" + std::to_string(pid) + "/fd", gone),
       end;
       !gone && it != end; it.increment(gone)) {
    std::error_code closed;
    const fs::path target = fs::read_symlink(it->path(), closed);
    if (!closed) {
      ++fds[name + " " + KindOf(target.string())];
    }
  }
  LeaveOutReady(&fds);
  return fds;
}

}  // namespace

DaemonFds TakeDaemonFds() {
  DaemonFds most;
  for (const auto& [name, process] :
       Node::ProcessesOf({"mountd", "mountd-closer", "mountd-exec",
                          "mountd-csi", "csi-local"})) {
    for (const auto& [kind, count] : FdsOf(name, Node::PidOf(process))) {
      most[kind] = std::max(most[kind], count);
    }
  }
  return most;
}

std::string MoreFds(const DaemonFds& before, const DaemonFds& after) {
  std::string text;
  for (const auto& [kind, count] : after) {
    const auto found = before.find(kind);
    const long had = found == before.end() ? 0 : found->second;
    if (count > had + SlackOf(kind)) {
      text += "+ fds of " + kind + ": " + std::to_string(count) + ", not " +
              std::to_string(had) + "\n";
    }
  }
  return text;
}

}  // namespace mountd::testing
