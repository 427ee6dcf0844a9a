// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/oci/sight.h"

#include <fcntl.h>
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
// An ending shim closes its socket shortly before it closes the task's
// directory.
constexpr std::chrono::seconds kEndPatience{2};
constexpr std::chrono::seconds kBindPatience{30};
constexpr int kBindRoundMs = 5;

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

Result<Sight> SightOf(ShimConnection shim, const Message& status) {
  Sight sight;
  sight.phase = PhaseOf(status);
  if (sight.phase == Phase::kExited) {
    MOUNTD_ASSIGN(const shim::Answer exited,
                  shim.Call(Message(Kind::kWait), {}, kStatusPatience));
    sight.result = ResultOf(exited.message);
  }
  sight.shim = std::move(shim);
  return sight;
}

// Returns nothing if no shim listens. An error of this process, such as EMFILE,
// says nothing about the shim.
Result<std::optional<Sight>> LookAtShim(const TaskPlace& place) {
  auto shim = ShimConnection::Open(place.directory.get());
  if (!shim) {
    const Error& error = shim.error();
    if (error.code == Code::kNotFound || error.sys_errno == ECONNREFUSED) {
      return std::optional<Sight>();
    }
    return error;
  }
  const auto status =
      shim->Call(Message(Kind::kGetStatus), {}, kStatusPatience);
  if (status) {
    MOUNTD_ASSIGN(Sight sight, SightOf(*std::move(shim), status->message));
    return std::optional<Sight>(std::move(sight));
  }
  if (status.error().code != Code::kUnavailable) {
    return status.error();
  }
  // The shim has ended meanwhile.
  return std::optional<Sight>();
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

Result<ExitResult> ResultOfLost(const TaskPlace& place) {
  MOUNTD_ASSIGN(const std::optional<Sight> recorded, LookAtRecord(place));
  if (!recorded) {
    return LostResult();
  }
  if (recorded->result) {
    return *recorded->result;
  }
  ExitResult result;
  result.error = recorded->failure->Message();
  return result;
}

Result<Sight> LookAt(const TaskPlace& place) {
  const auto end = std::chrono::steady_clock::now() + kEndPatience;
  for (;;) {
    MOUNTD_ASSIGN(std::optional<Sight> sight, LookAtShim(place));
    if (sight) {
      return *std::move(sight);
    }
    MOUNTD_ASSIGN(const bool is_held, HasHolder(place));
    // A shim writes the exit record before it ends, so looks for the record
    // again.
    MOUNTD_ASSIGN(sight, LookAtRecord(place));
    if (sight) {
      return *std::move(sight);
    }
    if (!IsThere(place.directory.get(), shim::kSocketFile)) {
      return Sight();
    }
    if (!is_held) {
      Sight lost;
      lost.phase = Phase::kLost;
      return lost;
    }
    if (std::chrono::steady_clock::now() >= end) {
      return MakeError(Code::kUnavailable, "connect", place.record.id,
                       "the task's shim answers nobody, and has the task's "
                       "directory yet; call again");
    }
    ::poll(nullptr, 0, kBindRoundMs);
  }
}

Result<Sight> LookAtListener(const TaskPlace& place) {
  const auto end = std::chrono::steady_clock::now() + kBindPatience;
  for (;;) {
    MOUNTD_ASSIGN(Sight sight, LookAt(place));
    MOUNTD_ASSIGN(const bool is_held, HasHolder(place));
    if (sight.phase != Phase::kNoShim || !is_held) {
      return sight;
    }
    if (std::chrono::steady_clock::now() >= end) {
      return MakeError(Code::kDeadlineExceeded, "connect", place.record.id,
                       "the task's shim has begun and does not listen; call "
                       "again");
    }
    ::poll(nullptr, 0, kBindRoundMs);
  }
}

bool MayHaveStarted(const TaskPlace& place) {
  return IsThere(place.directory.get(), kStartedFile);
}

Result<void> MarkStarted(const TaskPlace& place) {
  return MarkWith(place.directory.get(), kStartedFile);
}

// A holder has a shared lock of the directory. The kernel keeps this lock until
// the last process has closed the open file, which a shim inherits from its
// driver. This function opens the directory again, because flock(2) on the
// holder's own open file would change the holder's lock.
Result<bool> HasHolder(const TaskPlace& place) {
  const UniqueFd look(
      ::openat(place.directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!look.valid()) {
    return ErrnoError(errno, "open", "the task's directory");
  }
  if (::flock(look.get(), LOCK_EX | LOCK_NB) == 0) {
    return false;
  }
  if (errno == EWOULDBLOCK) {
    return true;
  }
  return ErrnoError(errno, "flock", "the task's directory");
}

Result<void> Hold(const TaskPlace& place) {
  if (::flock(place.directory.get(), LOCK_SH | LOCK_NB) != 0) {
    return ErrnoError(errno, "flock", "the task's directory");
  }
  return Ok();
}

Result<bool> LostTaskLives(const Host& host, const TaskPlace& place) {
  const auto cgroup = CgroupOf(host, place);
  const auto populated =
      cgroup ? cgroup->IsPopulated() : Result<bool>(cgroup.error());
  if (populated || populated.error().code != Code::kNotFound) {
    return populated;
  }
  // The task has no cgroup, or somebody has moved its processes and removed the
  // cgroup.
  MOUNTD_ASSIGN(const auto processes, ProcessesWithUpper(place.Upper()));
  return !processes.empty();
}

Result<void> AwaitLostTask(
    const Host& host, const TaskPlace& place, int interrupt,
    std::optional<std::chrono::steady_clock::time_point> deadline) {
  for (;;) {
    MOUNTD_ASSIGN(const bool lives, LostTaskLives(host, place));
    if (!lives) {
      return Ok();
    }
    MOUNTD_ASSIGN(const auto processes, ProcessesWithUpper(place.Upper()));
    std::vector<pollfd> waiting = {{interrupt, POLLIN, 0}};
    for (const TaskProcess& process : processes) {
      waiting.push_back({process.pidfd.get(), POLLIN, 0});
    }
    // An ending process loses its mounts before it leaves the cgroup.
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
}

}  // namespace mountd::driver
