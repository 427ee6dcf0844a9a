// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/ground/process.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <unistd.h>

#include <algorithm>

#include "mountd/base/number.h"

namespace mountd::propagation {
namespace {

using exec::Named;
using exec::Sys;

constexpr std::size_t kMaxProcesses = 1U << 18U;
constexpr std::size_t kMaxFdinfoBytes = 4096;
constexpr std::size_t kMaxStatusBytes = 16384;
// Enough for a namespace as full as fs.mount-max (100,000) lets it be.
constexpr std::size_t kMaxMountinfoBytes = 64U << 20U;

Error Ended() {
  return MakeError(Code::kFailedPrecondition, "open process", "pidfd",
                   "the process has ended");
}

// InvalidArgument if the process's directory is a thread's. A pidfd may refer
// to a thread (PIDFD_THREAD, Linux 6.9), whose namespaces and cgroup need not
// be its process's.
Result<void> CheckNoThread(const Context& context, const Process& process) {
  const Sys<std::string> status =
      context.kernel.ReadFile(process.dir.get(), "status", kMaxStatusBytes);
  if (exec::FailedWith(status, ESRCH)) {
    return Ended();
  }
  if (!status) {
    return ErrnoError(status.error(), "read status", "pidfd");
  }
  const auto leader =
      ParseNumber<std::uint32_t>(std::string(LineAfter(*status, "Tgid:\t")));
  return leader && *leader == process.pid
             ? Ok()
             : Result<void>(MakeError(
                   Code::kInvalidArgument, "open process", "pidfd",
                   "belongs to a thread; pass the pidfd of its process"));
}

}  // namespace

std::string_view LineAfter(std::string_view text, std::string_view label) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.starts_with(label)) {
      return line.substr(label.size());
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

Result<Process> OpenProcess(const Context& context, std::uint32_t pid) {
  const std::string path = "/proc/" + std::to_string(pid);
  MOUNTD_ASSIGN(
      UniqueFd dir,
      Named(context.kernel.Open(exec::kFromRoot, path, O_PATH | O_DIRECTORY,
                                RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS),
            "openat2", path));
  return Process{pid, std::move(dir)};
}

Result<Members> AllProcesses(const Context& context) {
  MOUNTD_ASSIGN(
      const UniqueFd proc,
      Named(context.kernel.Open(exec::kFromRoot, "/proc", O_PATH | O_DIRECTORY,
                                RESOLVE_NO_SYMLINKS),
            "openat2", "/proc"));
  MOUNTD_ASSIGN(const std::vector<std::string> names,
                Named(context.kernel.List(proc.get(), kMaxProcesses),
                      "getdents64", "/proc"));
  Members all;
  all.all_seen = names.size() < kMaxProcesses;
  for (const std::string& name : names) {
    if (const auto pid = ParseNumber<std::uint32_t>(name)) {
      all.pids.insert(*pid);
    }
  }
  all.pids.erase(static_cast<std::uint32_t>(::getpid()));
  return all;
}

// proc_pid_status(5). The kernel escapes special characters in the name.
void Describe(const Context& context, const Process& process,
              exec::Holder* holder) {
  const Sys<std::string> status =
      context.kernel.ReadFile(process.dir.get(), "status", kMaxStatusBytes);
  if (!status) {
    return;
  }
  const std::string_view uids = LineAfter(*status, "Uid:\t");
  holder->uid =
      ParseNumber<std::uint32_t>(uids.substr(0, uids.find('\t'))).value_or(0);
  const std::string_view name = LineAfter(*status, "Name:\t");
  std::copy_n(name.begin(), std::min(name.size(), holder->comm.size() - 1),
              holder->comm.begin());
}

bool HasGone(const Context& context, std::uint32_t pid) {
  const Result<Process> process = OpenProcess(context, pid);
  return !process && process.error().sys_errno == ENOENT;
}

Result<void> CheckAlive(const Context& context, int pidfd) {
  const Sys<bool> ended = context.kernel.HasEnded(pidfd);
  if (!ended) {
    return ErrnoError(ended.error(), "pidfd_send_signal", "pidfd");
  }
  return *ended ? Result<void>(Ended()) : Ok();
}

Result<Process> OpenProcess(const Context& context, int pidfd) {
  const Sys<bool> ended = context.kernel.HasEnded(pidfd);
  if (exec::FailedWith(ended, EBADF) || exec::FailedWith(ended, EINVAL)) {
    return MakeError(Code::kInvalidArgument, "open process", "pidfd",
                     "must be a pidfd");
  }
  if (!ended) {
    return ErrnoError(ended.error(), "pidfd_send_signal", "pidfd");
  }
  MOUNTD_ASSIGN(
      const std::string info,
      Named(context.kernel.ReadFile(
                exec::kFromRoot, "/proc/self/fdinfo/" + std::to_string(pidfd),
                kMaxFdinfoBytes),
            "read fdinfo", "pidfd"));
  const auto pid =
      ParseNumber<std::uint32_t>(std::string(LineAfter(info, "Pid:\t")));
  // The kernel shows -1 for an ended process, and 0 for one in no pid namespace
  // seen from here.
  if (!pid || *pid == 0) {
    return Ended();
  }
  Result<Process> process = OpenProcess(context, *pid);
  if (!process && process.error().sys_errno == ENOENT) {
    return Ended();
  }
  if (process) {
    MOUNTD_TRY(CheckNoThread(context, *process));
  }
  // If the process is still alive, its pid was not reused, so what has that pid
  // is the process.
  MOUNTD_TRY(CheckAlive(context, pidfd));
  return process;
}

Result<std::vector<MountFacts>> MountsOf(const Context& context,
                                         const Process& process) {
  MOUNTD_ASSIGN(std::string text,
                Named(context.kernel.ReadFile(process.dir.get(), "mountinfo",
                                              kMaxMountinfoBytes),
                      "read mountinfo", std::to_string(process.pid)));
  return ParseMountinfo(std::move(text));
}

Result<std::uint64_t> NamespaceAt(const Context& context, int dir,
                                  const std::string& link) {
  MOUNTD_ASSIGN(const exec::FileFacts facts,
                Named(context.kernel.StatLinked(dir, link), "statx", link));
  return facts.inode;
}

}  // namespace mountd::propagation
