// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/oci/task_processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <memory>

#include "mountd/base/number.h"

namespace mountd::driver {
namespace {

constexpr std::size_t kMostMounts = std::size_t{16} << 20U;
constexpr int kRoundMs = 5;

std::string MountsOf(int process) {
  const UniqueFd file(::openat(process, "mountinfo", O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 16384> part{};
  while (file.valid() && text.size() < kMostMounts) {
    const ssize_t got = ::read(file.get(), part.data(), part.size());
    if (got <= 0) {
      break;
    }
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  return text;
}

bool HasEnded(const UniqueFd& pidfd) {
  pollfd waiting = {pidfd.get(), POLLIN, 0};
  return ::poll(&waiting, 1, 0) != 0;
}

}  // namespace

std::vector<TaskProcess> ProcessesWithUpper(const std::string& upper) {
  std::vector<TaskProcess> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> all(::opendir("/proc"), ::closedir);
  if (!all) {
    return found;
  }
  const std::string mark = "upperdir=" + upper + ",";
  while (const dirent* entry = ::readdir(all.get())) {
    const auto pid = ParseNumber<pid_t>(entry->d_name);
    if (!pid || *pid <= 0) {
      continue;
    }
    const UniqueFd process(::openat(::dirfd(all.get()), entry->d_name,
                                    O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!process.valid() ||
        MountsOf(process.get()).find(mark) == std::string::npos) {
      continue;
    }
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0)));
    // The directory is of the process that was looked at. If it still has its
    // mounts now, the pidfd is of the same process.
    if (pidfd.valid() && !HasEnded(pidfd) &&
        MountsOf(process.get()).find(mark) != std::string::npos) {
      found.push_back({*pid, std::move(pidfd)});
    }
  }
  return found;
}

Result<void> KillProcessesWithUpper(const std::string& upper,
                                    std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const std::vector<TaskProcess> left = ProcessesWithUpper(upper);
    if (left.empty()) {
      return Ok();
    }
    for (const TaskProcess& process : left) {
      ::syscall(SYS_pidfd_send_signal, process.pidfd.get(), SIGKILL, nullptr,
                0);
    }
    if (std::chrono::steady_clock::now() >= end) {
      return MakeError(Code::kDeadlineExceeded, "kill",
                       "process " + std::to_string(left.front().pid),
                       "a process of the task does not end; call again");
    }
    ::poll(nullptr, 0, kRoundMs);
  }
}

}  // namespace mountd::driver
