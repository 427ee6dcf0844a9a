// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/shim/family.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/number.h"
#include "mountd/base/unique_fd.h"

namespace mountd::shim {
namespace {

struct Lineage {
  pid_t parent = 0;
  pid_t session = 0;
};

// Returns the parent and the session of a process (proc(5), "stat"); nothing if
// the process has ended.
std::optional<Lineage> LineageOf(const std::string& pid) {
  const UniqueFd file(
      ::open(("/proc/" + pid + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 512> text{};
  const ssize_t got =
      file.valid() ? ::read(file.get(), text.data(), text.size()) : 0;
  std::string_view rest(text.data(),
                        static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  // The name may have blanks and parentheses. State, parent, group and session
  // follow, each after a blank.
  const std::size_t name_end = rest.rfind(')');
  rest.remove_prefix(name_end == std::string_view::npos ? rest.size()
                                                        : name_end + 1);
  std::array<std::optional<pid_t>, 4> numbers;
  for (std::optional<pid_t>& number : numbers) {
    if (rest.empty()) {
      return std::nullopt;
    }
    rest.remove_prefix(1);
    const std::size_t end = std::min(rest.find(' '), rest.size());
    number = ParseNumber<pid_t>(rest.substr(0, end));
    rest.remove_prefix(end);
  }
  if (!numbers[1] || !numbers[3]) {
    return std::nullopt;
  }
  return Lineage{*numbers[1], *numbers[3]};
}

// Finds the descendants of a first process. Stops each process that it finds,
// so that the process neither forks nor ends before the kill. Without this stop
// a parent could end, and its child in a session of its own would be lost. Does
// not find a process that has left its session and whose parent ended before.
class Family {
 public:
  Family(pid_t first, int pidfd) : pids_({first}) { Send(pidfd, SIGSTOP); }

  void AddSession(pid_t session) { sessions_.insert(session); }

  // Finds and stops members until a look finds no new member.
  void Gather() {
    // A process may fork during a look.
    constexpr int kMostLooks = 16;
    for (int i = 0; i < kMostLooks && Look(); ++i) {
    }
  }

  // Kills children before their parents, because IsMember knows a child by its
  // parent.
  void Kill() const {
    for (auto pid = members_.rbegin(); pid != members_.rend(); ++pid) {
      SendToMember(*pid, SIGKILL);
    }
  }

 private:
  static void Send(int pidfd, int signal) {
    ::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0);
  }

  bool IsMember(const std::string& pid) const {
    const auto lineage = LineageOf(pid);
    return lineage && (pids_.contains(lineage->parent) ||
                       sessions_.contains(lineage->session));
  }

  bool Look() {
    bool has_found = false;
    const std::unique_ptr<DIR, int (*)(DIR*)> all(::opendir("/proc"),
                                                  ::closedir);
    while (const dirent* entry = all ? ::readdir(all.get()) : nullptr) {
      const std::string name = &entry->d_name[0];
      const auto pid = ParseNumber<pid_t>(name);
      if (!pid || pids_.contains(*pid) || !IsMember(name)) {
        continue;
      }
      if (SendToMember(*pid, SIGSTOP)) {
        Add(*pid, LineageOf(name));
        has_found = true;
      }
    }
    return has_found;
  }

  // False if the process has ended. Opens the pidfd before it looks at the pid,
  // so the pidfd cannot belong to an earlier process with this pid. Opens one
  // fd at a time, because a task may have more processes than the shim may have
  // fds.
  bool SendToMember(pid_t pid, int signal) const {
    const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!pidfd.valid() || !IsMember(std::to_string(pid))) {
      return false;
    }
    Send(pidfd.get(), signal);
    return true;
  }

  // Adds the member. If a member leads the session, adds the session, too,
  // because only descendants of its leader can be in a session.
  void Add(pid_t pid, const std::optional<Lineage>& lineage) {
    pids_.insert(pid);
    members_.push_back(pid);
    if (lineage && pids_.contains(lineage->session)) {
      sessions_.insert(lineage->session);
    }
  }

  std::set<pid_t> pids_;
  std::set<pid_t> sessions_;
  std::vector<pid_t> members_;  // a parent before its children
};

}  // namespace

void KillFamily(pid_t pid, pid_t init) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  const auto lineage = LineageOf(std::to_string(pid));
  const auto of_init = LineageOf(std::to_string(init));
  Family family(pid, pidfd.get());
  if (lineage && lineage->session > 0 && lineage->session != ::getsid(0) &&
      (!of_init || lineage->session != of_init->session)) {
    family.AddSession(lineage->session);
  }
  family.Gather();
  family.Kill();
  // The pid stays the child's until the shim reaps the child.
  ::kill(pid, SIGKILL);
}

}  // namespace mountd::shim
