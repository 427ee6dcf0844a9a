// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The resources that tasks use and may use.
#include <algorithm>
#include <utility>

#include "agent/driver/oci/config_document.h"
#include "agent/driver/oci/driver.h"
#include "agent/driver/oci/stream_wait.h"
#include "mountd/base/wall_clock.h"

namespace mountd::driver {
namespace {

// The shortest pause between two values. It bounds the work if a caller asks
// for a shorter one.
constexpr std::chrono::milliseconds kShortestInterval{10};

TaskStats StatsOf(const CgroupStats& from) {
  TaskStats stats;
  stats.memory_current = from.memory_current;
  stats.memory_peak = from.memory_peak;
  stats.memory_anon = from.memory_anon;
  stats.memory_file = from.memory_file;
  stats.memory_swap = from.memory_swap;
  stats.cpu_user_us = from.cpu_user_us;
  stats.cpu_system_us = from.cpu_system_us;
  stats.cpu_throttled_us = from.cpu_throttled_us;
  stats.cpu_throttled_periods = from.cpu_throttled_periods;
  stats.pids = from.pids_current;
  return stats;
}

class StatsStream final : public Stream<TaskStats> {
 public:
  StatsStream(std::shared_ptr<Host> host, TaskPlace place,
              std::chrono::milliseconds interval)
      : host_(std::move(host)),
        place_(std::move(place)),
        interval_(std::max(interval, kShortestInterval)),
        wait_(host_->shutdown()) {}

  Result<std::optional<TaskStats>> Next() override {
    if (has_ended_ || !Pause()) {
      return std::optional<TaskStats>();
    }
    MOUNTD_ASSIGN(const Sight sight, LookAt(place_));
    bool lives = sight.shim && sight.phase != Phase::kExited;
    if (sight.phase == Phase::kLost) {
      MOUNTD_ASSIGN(lives, LostTaskLives(*host_, place_));
    }
    if (!lives) {
      has_ended_ = true;
      return std::optional<TaskStats>();
    }
    TaskStats stats;
    if (place_.record.has_cgroup) {
      MOUNTD_ASSIGN(const TaskCgroup cgroup, CgroupOf(*host_, place_));
      MOUNTD_ASSIGN(const CgroupStats values, cgroup.Stats());
      stats = StatsOf(values);
    }
    stats.at = Timestamp(std::chrono::microseconds(NowMicroseconds()));
    return std::optional<TaskStats>(stats);
  }

  void Cancel() override { wait_.Cancel(); }

 private:
  // The first value comes at once.
  bool Pause() {
    return std::exchange(is_first_, false) ? wait_.goes_on()
                                           : wait_.Sleep(interval_);
  }

  std::shared_ptr<Host> host_;
  TaskPlace place_;
  std::chrono::milliseconds interval_;
  StreamWait wait_;
  bool is_first_ = true;
  bool has_ended_ = false;
};

}  // namespace

Result<std::unique_ptr<Stream<TaskStats>>> OciDriver::Stats(
    const std::string& id, std::chrono::milliseconds interval) {
  MOUNTD_ASSIGN(TaskPlace place, store_.Find(id));
  return std::unique_ptr<Stream<TaskStats>>(
      std::make_unique<StatsStream>(host_, std::move(place), interval));
}

Result<void> OciDriver::UpdateTask(const std::string& id,
                                   const TaskResources& resources) {
  MOUNTD_TRY(CheckResources(resources));
  MOUNTD_ASSIGN(const TaskPlace place, store_.Find(id));
  if (!place.record.has_cgroup) {
    return MakeError(Code::kNotSupported, "update", id,
                     "the task has no cgroup: " + host_->no_cgroups());
  }
  MOUNTD_ASSIGN(const Sight sight, LookAt(place));
  if (sight.phase == Phase::kExited || sight.phase == Phase::kFailed) {
    return MakeError(Code::kFailedPrecondition, "update", id,
                     "the task has ended");
  }
  MOUNTD_ASSIGN(const TaskCgroup cgroup, CgroupOf(*host_, place));
  MOUNTD_TRY(cgroup.SetLimits(LimitsOf(resources)));
  return Ok();
}

}  // namespace mountd::driver
