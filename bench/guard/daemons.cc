// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/guard/daemons.h"

#include <sys/stat.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "bench/guard/carrier.h"
#include "mountd/base/number.h"

namespace mountd::bench {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

// Returns how long all threads of the process have run; 0 if one of them runs
// now.
std::uint64_t WorkOf(pid_t process) {
  std::error_code ignored;
  std::uint64_t all = 0;
  const fs::path tasks = "/proc/" + std::to_string(process) + "/task";
  for (const auto& task : fs::directory_iterator(tasks, ignored)) {
    std::string stat;
    std::getline(std::ifstream(task.path() / "stat"), stat);
    // Looks for the last ')', because a process's name may have any byte.
    const std::size_t name = stat.rfind(')');
    if (name == std::string::npos || stat.compare(name, 3, ") S") != 0) {
      return 0;
    }
    std::uint64_t ran = 0;
    std::ifstream(task.path() / "schedstat") >> ran;
    all += ran;
  }
  return all;
}

std::uint64_t Work() {
  std::uint64_t all = 0;
  for (const pid_t process : CountedDaemons()) {
    const std::uint64_t work = WorkOf(process);
    if (work == 0) {
      return 0;
    }
    all += work;
  }
  return all;
}

}  // namespace

Result<void> MakeCounts() {
  // All may write here, because the daemons run as different users.
  if (::mkdir(kCounts, 0700) != 0 || ::chmod(kCounts, 01777) != 0) {
    return ErrnoError(errno, "mkdir", kCounts);
  }
  return Ok();
}

std::set<pid_t> CountedDaemons() {
  std::set<pid_t> found;
  for (const auto& file : fs::directory_iterator(kCounts)) {
    const std::string name = file.path().filename();
    const auto pid = ParseNumber<pid_t>(name.substr(name.rfind('.') + 1));
    if (name.starts_with("pid.") && pid && ::kill(*pid, 0) == 0) {
      found.insert(*pid);
    }
  }
  return found;
}

Result<void> AwaitQuiet(milliseconds long_enough) {
  constexpr milliseconds kPause(5);
  constexpr std::chrono::minutes kLimit(1);
  const auto begin = std::chrono::steady_clock::now();
  auto since = begin;
  std::uint64_t before = 0;
  for (auto now = begin; now - begin < kLimit;
       now = std::chrono::steady_clock::now()) {
    const std::uint64_t work = Work();
    if (work == 0 || work != before) {
      since = now;
    } else if (now - since >= long_enough) {
      return Ok();
    }
    before = work;
    std::this_thread::sleep_for(kPause);
  }
  return MakeError(Code::kDeadlineExceeded, "wait for quiet", "daemons");
}

Result<void> Mark() {
  constexpr milliseconds kLongEnough(20);
  for (const pid_t process : CountedDaemons()) {
    ::kill(process, kMarkSignal);
  }
  return AwaitQuiet(kLongEnough);
}

}  // namespace mountd::bench
