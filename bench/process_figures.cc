// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/process_figures.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include "tests/support/node/node.h"

namespace mountd::bench {
namespace {

namespace fs = std::filesystem;

// Returns the numbers of a file of proc(5) with lines such as "Pss: 12 kB".
std::map<std::string, long> NumbersIn(const std::string& path) {
  std::map<std::string, long> numbers;
  std::ifstream file(path);
  std::string key;
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos) {
      numbers[line.substr(0, colon)] =
          std::strtol(line.c_str() + colon + 1, nullptr, 10);
    }
  }
  return numbers;
}

int EntriesIn(const std::string& path) {
  std::error_code ended;
  const fs::directory_iterator entries(path, ended);
  return ended ? 0
               : static_cast<int>(std::distance(begin(entries), end(entries)));
}

std::optional<ProcessFigures> FiguresOf(pid_t pid) {
  const std::string directory = "/proc/" + std::to_string(pid);
  const auto memory = NumbersIn(directory + "/smaps_rollup");
  const auto pss = memory.find("Pss");
  const auto anonymous = memory.find("Pss_Anon");
  if (pss == memory.end() || anonymous == memory.end()) {
    return std::nullopt;
  }
  constexpr double kKibInMib = 1024;
  return ProcessFigures{
      .processes = 1,
      .pss_mb = static_cast<double>(pss->second) / kKibInMib,
      .anonymous_mb = static_cast<double>(anonymous->second) / kKibInMib,
      .threads = EntriesIn(directory + "/task"),
      .fds = EntriesIn(directory + "/fd")};
}

}  // namespace

std::vector<pid_t> PidsOf(const std::string& name) {
  std::vector<pid_t> pids;
  for (const UniqueFd& process : testing::Node::Processes(name)) {
    const auto numbers =
        NumbersIn("/proc/self/fdinfo/" + std::to_string(process.get()));
    const auto pid = numbers.find("Pid");
    if (pid != numbers.end() && pid->second > 0) {
      pids.push_back(static_cast<pid_t>(pid->second));
    }
  }
  return pids;
}

Result<ProcessFigures> FiguresOf(const std::string& name) {
  ProcessFigures all;
  for (const pid_t pid : PidsOf(name)) {
    if (const auto one = FiguresOf(pid)) {
      all.processes += one->processes;
      all.pss_mb += one->pss_mb;
      all.anonymous_mb += one->anonymous_mb;
      all.threads += one->threads;
      all.fds += one->fds;
    }
  }
  if (all.processes == 0) {
    return MakeError(Code::kNotFound, "measure", name,
                     "no such process, or it cannot be looked at");
  }
  return all;
}

}  // namespace mountd::bench
