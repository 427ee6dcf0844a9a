// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/cgroups/task_cgroup.h"

#include "agent/driver/cgroups/cgroup_files.h"
#include "mountd/base/number.h"

namespace mountd::driver {
namespace {

std::string LimitText(std::uint64_t limit) {
  return limit == CgroupLimits::kNone ? "max" : std::to_string(limit);
}

// A file and its new text.
using LimitFile = std::pair<const char*, std::string>;

std::vector<LimitFile> FilesOf(const CgroupLimits& limits) {
  std::vector<LimitFile> files;
  const auto add = [&files](const char* file, const auto& value) {
    if (value) {
      files.emplace_back(file, LimitText(*value));
    }
  };
  if (limits.memory_swap_max) {
    add("memory.swap.max", limits.memory_swap_max);
  } else if (limits.memory_max && *limits.memory_max != CgroupLimits::kNone) {
    files.emplace_back("memory.swap.max", "0");
  }
  add("memory.max", limits.memory_max);
  add("memory.low", limits.memory_low);
  if (limits.memory_oom_group) {
    files.emplace_back("memory.oom.group",
                       *limits.memory_oom_group ? "1" : "0");
  }
  add("cpu.weight", limits.cpu_weight);
  if (limits.cpu_quota_us) {
    files.emplace_back("cpu.max", LimitText(*limits.cpu_quota_us) + " " +
                                      std::to_string(limits.cpu_period_us));
  }
  add("pids.max", limits.pids_max);
  if (limits.cpuset_cpus) {
    files.emplace_back("cpuset.cpus", *limits.cpuset_cpus);
  }
  return files;
}

// Returns the text of a file that may be missing.
Result<std::string> ReadIfThere(const UniqueFd& cgroup, const char* file) {
  Result<std::string> text = ReadCgroupFile(cgroup, file);
  if (!text && text.error().code == Code::kNotFound) {
    return std::string();
  }
  return text;
}

std::optional<std::uint64_t> OneNumber(const std::string& text) {
  const std::vector<std::string> words = WordsOfText(text);
  return words.size() == 1 ? ParseNumber<std::uint64_t>(words.front())
                           : std::nullopt;
}

}  // namespace

Result<std::vector<std::string>> TaskCgroup::SetLimits(
    const CgroupLimits& limits) const {
  std::vector<std::string> left_out;
  for (const auto& [file, text] : FilesOf(limits)) {
    if (!HasCgroupFile(directory_, file)) {
      left_out.emplace_back(file);
      continue;
    }
    MOUNTD_TRY(WriteCgroupFile(directory_, file, text));
  }
  return left_out;
}

Result<CgroupStats> TaskCgroup::Stats() const {
  CgroupStats stats;
  MOUNTD_ASSIGN(const std::string current,
                ReadIfThere(directory_, "memory.current"));
  MOUNTD_ASSIGN(const std::string peak,
                ReadIfThere(directory_, "memory.peak"));
  MOUNTD_ASSIGN(const std::string swap,
                ReadIfThere(directory_, "memory.swap.current"));
  MOUNTD_ASSIGN(const std::string memory,
                ReadIfThere(directory_, "memory.stat"));
  MOUNTD_ASSIGN(const std::string cpu, ReadIfThere(directory_, "cpu.stat"));
  MOUNTD_ASSIGN(const std::string pids,
                ReadIfThere(directory_, "pids.current"));
  stats.memory_current = OneNumber(current);
  stats.memory_peak = OneNumber(peak);
  stats.memory_swap = OneNumber(swap);
  stats.memory_anon = NumberAfter(memory, "anon");
  stats.memory_file = NumberAfter(memory, "file");
  stats.cpu_usage_us = NumberAfter(cpu, "usage_usec");
  stats.cpu_user_us = NumberAfter(cpu, "user_usec");
  stats.cpu_system_us = NumberAfter(cpu, "system_usec");
  stats.cpu_throttled_us = NumberAfter(cpu, "throttled_usec");
  stats.cpu_throttled_periods = NumberAfter(cpu, "nr_throttled");
  stats.pids_current = OneNumber(pids);
  return stats;
}

Result<std::uint64_t> TaskCgroup::OomKills() const {
  MOUNTD_ASSIGN(const std::string text,
                ReadCgroupFile(directory_, "memory.events"));
  const auto kills = NumberAfter(text, "oom_kill");
  if (!kills) {
    return MakeError(Code::kInternal, "memory.events", "",
                     "the file has no oom_kill");
  }
  return *kills;
}

Result<bool> TaskCgroup::IsPopulated() const {
  MOUNTD_ASSIGN(const std::string text,
                ReadCgroupFile(directory_, "cgroup.events"));
  return NumberAfter(text, "populated").value_or(1) != 0;
}

Result<void> TaskCgroup::Kill() const {
  return WriteCgroupFile(directory_, "cgroup.kill", "1");
}

}  // namespace mountd::driver
