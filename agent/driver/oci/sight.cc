// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/oci/sight.h"

#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "agent/driver/oci/files.h"
#include "agent/driver/oci/task_processes.h"
#include "agent/driver/protocol/task_files.h"

namespace mountd::driver {
namespace {

using shim::Kind;
using shim::Message;
using shim::ShimConnection;
using shim::Tag;

constexpr char kStartedFile[] = "started";
constexpr std::chrono::seconds kStatusPatience{10};
constexpr std::chrono::seconds kLookAgain{1};
constexpr std::chrono::milliseconds kLookSoon{5};

Phase PhaseOf(const Message& status) {
  switch (static_cast<shim::State>(status.Number(Tag::kState))) {
    case shim::State::kCreating:
      return Phase::kCreating;
    case shim::State::kCreated:
      return Phase::kCreated;
    case shim::State::kRunning:
      return Phase::kRunning;
    case shim::State::kExited:
      break;
  }
  return Phase::kExited;
}

// Returns what the disk says; nothing without an exit record.
Result<std::optional<Sight>> LookAtRecord(const TaskPlace& place) {
  const auto record = shim::ReadExit(place.directory.get());
  if (!record) {
    if (record.error().code != Code::kNotFound) {
      return record.error();
    }
    return std::optional<Sight>();
  }
  Sight sight;
  if (record->kind() == Kind::kFailed) {
    sight.phase = Phase::kFailed;
    sight.failure = record->ToError();
  } else {
    sight.phase = Phase::kExited;
    sight.result = ResultOf(*record);
  }
  return std::optional<Sight>(std::move(sight));
}

}  // namespace

ExitResult ResultOf(const Message& exited) {
  ExitResult result;
  result.exit_code = static_cast<int>(exited.Number(Tag::kExitCode));
  result.signal = static_cast<int>(exited.Number(Tag::kExitSignal));
  result.oom_killed = exited.Number(Tag::kOomKilled) != 0;
  return result;
}

ExitResult LostResult() {
  ExitResult result;
  result.error =
      "the exit status is lost, because somebody has killed the task's shim";
  return result;
}

Result<Sight> LookAt(const TaskPlace& place) {
  auto shim = ShimConnection::Open(place.directory.get());
  if (shim) {
    const auto status =
        shim->Call(Message(Kind::kGetStatus), {}, kStatusPatience);
    if (status) {
      Sight sight;
      sight.phase = PhaseOf(status->message);
      if (sight.phase == Phase::kExited) {
        MOUNTD_ASSIGN(const shim::Answer exited,
                      shim->Call(Message(Kind::kWait), {}, kStatusPatience));
        sight.result = ResultOf(exited.message);
      }
      sight.shim = *std::move(shim);
      return sight;
    }
    if (status.error().code != Code::kUnavailable) {
      return status.error();
    }
  }
  // The record comes before the end of a shim.
  MOUNTD_ASSIGN(std::optional<Sight> recorded, LookAtRecord(place));
  if (recorded) {
    return *std::move(recorded);
  }
  Sight sight;
  sight.phase = IsThere(place.directory.get(), shim::kSocketFile)
                    ? Phase::kLost
                    : Phase::kNoShim;
  return sight;
}

bool MayHaveStarted(const TaskPlace& place) {
  return IsThere(place.directory.get(), kStartedFile);
}

Result<void> MarkStarted(const TaskPlace& place) {
  return WriteFile(place.directory.get(), kStartedFile, "1\n");
}

// The kernel keeps the lock until the last process has closed the open file,
// which a shim has from its driver.
bool HasHolder(const TaskPlace& place) {
  if (::flock(place.directory.get(), LOCK_EX | LOCK_NB) != 0) {
    return true;
  }
  ::flock(place.directory.get(), LOCK_UN);
  return false;
}

Result<void> Hold(const TaskPlace& place) {
  if (::flock(place.directory.get(), LOCK_SH | LOCK_NB) != 0) {
    return ErrnoError(errno, "flock", "the task's directory");
  }
  return Ok();
}

bool LostTaskLives(const Host& host, const TaskPlace& place) {
  if (place.record.has_cgroup && host.cgroups() != nullptr) {
    const auto cgroup = host.cgroups()->Find(place.Cgroup());
    if (!cgroup) {
      return false;
    }
    const auto populated = cgroup->IsPopulated();
    return !populated || *populated;
  }
  return !ProcessesWithUpper(place.Upper()).empty();
}

Result<void> AwaitLostTask(
    const Host& host, const TaskPlace& place, int interrupt,
    std::optional<std::chrono::steady_clock::time_point> deadline) {
  while (LostTaskLives(host, place)) {
    const auto processes = ProcessesWithUpper(place.Upper());
    std::vector<pollfd> waiting = {{interrupt, POLLIN, 0}};
    for (const TaskProcess& process : processes) {
      waiting.push_back({process.pidfd.get(), POLLIN, 0});
    }
    // A process that ends has no mounts any more, and is in the cgroup yet.
    auto left =
        processes.empty() ? kLookSoon : std::chrono::milliseconds(kLookAgain);
    if (deadline) {
      left = std::min(left, std::chrono::ceil<std::chrono::milliseconds>(
                                *deadline - std::chrono::steady_clock::now()));
      if (left.count() <= 0) {
        return MakeError(Code::kDeadlineExceeded, "wait", place.record.id,
                         "the task goes on");
      }
    }
    ::poll(waiting.data(), waiting.size(), static_cast<int>(left.count()));
    if (waiting.front().revents != 0) {
      return MakeError(Code::kAborted, "wait", place.record.id,
                       "the driver is shutting down; the task goes on");
    }
  }
  return Ok();
}

}  // namespace mountd::driver
