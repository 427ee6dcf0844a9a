// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/oci/task_processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "mountd/base/number.h"

namespace mountd::driver {
namespace {

constexpr std::size_t kMostMounts = std::size_t{16} << 20U;
constexpr int kRoundMs = 5;
constexpr int kShimEndMs = 5000;

// Errors of this process alone, or of the machine, which say nothing about the
// process that is looked at.
bool IsOurOwn(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM;
}

// Returns "" for a process that has ended.
Result<std::string> MountsOf(int process) {
  const UniqueFd file(::openat(process, "mountinfo", O_RDONLY | O_CLOEXEC));
  if (!file.valid() && IsOurOwn(errno)) {
    return ErrnoError(errno, "open", "mountinfo of a process");
  }
  std::string text;
  std::array<char, 16384> part{};
  while (file.valid() && text.size() < kMostMounts) {
    const ssize_t got = ::read(file.get(), part.data(), part.size());
    if (got < 0 && IsOurOwn(errno)) {
      return ErrnoError(errno, "read", "mountinfo of a process");
    }
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

// Calls `take` with each option of each overlay in the text of mountinfo(5),
// until `take` returns true. Only the last field of a line has options of the
// file system, and no option has a comma or a space of its own.
template <typename Take>
bool AnyOptionOfOverlays(std::string_view mounts, const Take& take) {
  constexpr std::string_view kType = " - overlay ";
  for (; !mounts.empty(); mounts.remove_prefix(
           std::min(mounts.find('\n'), mounts.size() - 1) + 1)) {
    const std::string_view line = mounts.substr(0, mounts.find('\n'));
    if (line.find(kType) == std::string_view::npos) {
      continue;
    }
    std::string_view options = line.substr(line.rfind(' ') + 1);
    while (!options.empty()) {
      const std::size_t end = std::min(options.find(','), options.size());
      if (take(options.substr(0, end))) {
        return true;
      }
      options.remove_prefix(std::min(end + 1, options.size()));
    }
  }
  return false;
}

bool HasOverlayWith(std::string_view mounts, std::string_view option) {
  return AnyOptionOfOverlays(
      mounts, [option](std::string_view one) { return one == option; });
}

bool IsOfThisUser(const UniqueFd& pidfd) {
  return ::syscall(SYS_pidfd_send_signal, pidfd.get(), 0, nullptr, 0) == 0 ||
         errno != EPERM;
}

// Tells tasks from shims, because a process of a task can take any name. A task
// is in a user namespace of its own, and a shim is in the driver's.
bool IsInOwnUserNamespace(int process) {
  struct stat own = {};
  struct stat theirs = {};
  return ::stat("/proc/self/ns/user", &own) == 0 &&
         ::fstatat(process, "ns/user", &theirs, 0) == 0 &&
         own.st_dev == theirs.st_dev && own.st_ino == theirs.st_ino;
}

bool IsShim(int process) {
  // The kernel keeps 15 characters of a program's name.
  constexpr std::string_view kName = "mountd-task-shi\n";
  const UniqueFd comm(::openat(process, "comm", O_RDONLY | O_CLOEXEC));
  std::array<char, 32> name{};
  const ssize_t size =
      comm.valid() ? ::read(comm.get(), name.data(), name.size()) : -1;
  return size > 0 &&
         std::string_view(name.data(), static_cast<std::size_t>(size)) ==
             kName &&
         IsInOwnUserNamespace(process);
}

bool IsShimIn(int process, int task_directory) {
  struct stat working = {};
  struct stat tasks = {};
  return IsShim(process) && ::fstatat(process, "cwd", &working, 0) == 0 &&
         ::fstat(task_directory, &tasks) == 0 &&
         working.st_dev == tasks.st_dev && working.st_ino == tasks.st_ino;
}

// Calls `look` with the pid of each process and its directory in /proc, until
// `look` fails.
Result<void> ForEachProcess(
    const std::function<Result<void>(pid_t, int)>& look) {
  const std::unique_ptr<DIR, int (*)(DIR*)> all(::opendir("/proc"), ::closedir);
  if (!all) {
    return ErrnoError(errno, "open", "/proc");
  }
  while (const dirent* entry = ::readdir(all.get())) {
    const auto pid = ParseNumber<pid_t>(entry->d_name);
    if (!pid || *pid <= 0) {
      continue;
    }
    const UniqueFd process(::openat(::dirfd(all.get()), entry->d_name,
                                    O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (process.valid()) {
      MOUNTD_TRY(look(*pid, process.get()));
    } else if (IsOurOwn(errno)) {
      return ErrnoError(errno, "open", "a process");
    }
  }
  return Ok();
}

// Returns no fd for a process that has ended.
Result<UniqueFd> PidfdOf(pid_t pid) {
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.valid() && IsOurOwn(errno)) {
    return ErrnoError(errno, "pidfd_open", "process " + std::to_string(pid));
  }
  return pidfd;
}

// Returns the process if its mounts have the mark.
Result<std::optional<TaskProcess>> ProcessWith(pid_t pid, int process,
                                               const std::string& mark) {
  std::optional<TaskProcess> found;
  MOUNTD_ASSIGN(const std::string before, MountsOf(process));
  if (!HasOverlayWith(before, mark)) {
    return found;
  }
  MOUNTD_ASSIGN(UniqueFd pidfd, PidfdOf(pid));
  if (!pidfd.valid()) {
    return found;
  }
  // `process` is the directory of the process that was looked at. If the
  // directory still has these mounts now, the pidfd is of the same process.
  MOUNTD_ASSIGN(const std::string after, MountsOf(process));
  if (!HasEnded(pidfd) && HasOverlayWith(after, mark) && IsOfThisUser(pidfd)) {
    found = TaskProcess{pid, std::move(pidfd)};
  }
  return found;
}

}  // namespace

Result<std::vector<TaskProcess>> ProcessesWithUpper(const std::string& upper) {
  std::vector<TaskProcess> found;
  const std::string mark = "upperdir=" + upper;
  const Result<void> all =
      ForEachProcess([&](pid_t pid, int directory) -> Result<void> {
        MOUNTD_ASSIGN(auto process, ProcessWith(pid, directory, mark));
        if (process) {
          found.push_back(*std::move(process));
        }
        return Ok();
      });
  if (!all && found.empty()) {
    return all.error();
  }
  return found;
}

Result<std::set<std::string>> UppersOfProcesses() {
  constexpr std::string_view kUpper = "upperdir=";
  std::set<std::string> uppers;
  const Result<void> all =
      ForEachProcess([&](pid_t pid, int process) -> Result<void> {
        MOUNTD_ASSIGN(const UniqueFd pidfd, PidfdOf(pid));
        // A shim has the overlay of its task also after the task's end.
        if (!pidfd.valid() || !IsOfThisUser(pidfd) || IsShim(process)) {
          return Ok();
        }
        MOUNTD_ASSIGN(const std::string mounts, MountsOf(process));
        AnyOptionOfOverlays(mounts, [&](std::string_view option) {
          if (option.starts_with(kUpper)) {
            uppers.emplace(option.substr(kUpper.size()));
          }
          return false;
        });
        return Ok();
      });
  MOUNTD_TRY(all);
  return uppers;
}

Result<void> KillShimsIn(int task_directory) {
  return ForEachProcess([&](pid_t pid, int process) -> Result<void> {
    if (!IsShimIn(process, task_directory)) {
      return Ok();
    }
    MOUNTD_ASSIGN(const UniqueFd pidfd, PidfdOf(pid));
    // This look comes after the pidfd's open, so the pidfd is of this process.
    if (pidfd.valid() && IsShimIn(process, task_directory)) {
      ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
      pollfd ended = {pidfd.get(), POLLIN, 0};
      ::poll(&ended, 1, kShimEndMs);
    }
    return Ok();
  });
}

Result<void> KillProcessesWithUpper(const std::string& upper,
                                    std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    MOUNTD_ASSIGN(const std::vector<TaskProcess> left,
                  ProcessesWithUpper(upper));
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
