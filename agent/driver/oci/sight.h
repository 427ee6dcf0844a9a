// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>

#include "agent/driver/oci/task_store.h"
#include "agent/driver/protocol/shim_connection.h"
#include "agent/driver/task_status.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::driver {

// How far a task is. Only the disk and the shim say this, so all drivers get
// the same answer.
enum class Phase {
  kNoShim,    // no shim has the task yet
  kCreating,  // the runtime makes the container
  kCreated,   // the task's program has not begun
  kRunning,
  kExited,
  kFailed,  // the container could not be made
  kLost,    // somebody has killed the shim; the processes may go on
};

struct Sight {
  Phase phase = Phase::kNoShim;
  // From kCreating to kRunning, and in kExited while the shim is there.
  std::optional<shim::ShimConnection> shim{};
  std::optional<ExitResult> result{};  // of kExited
  std::optional<Error> failure{};      // of kFailed
};

// An error says nothing about the task. DeadlineExceeded if the shim does not
// answer, for example because it is stopped. The phase is kLost if nobody
// listens at the socket, or if the directory has no holder.
Result<Sight> LookAt(const TaskPlace& place);
// The same, but waits for a shim that has yet to listen, because its driver was
// killed after the launch.
Result<Sight> LookAtListener(const TaskPlace& place);

// True once the driver has asked the shim to start the task's program, or was
// about to.
bool MayHaveStarted(const TaskPlace& place);
Result<void> MarkStarted(const TaskPlace& place);

// True if a shim, or a driver that makes one, has the task's directory.
Result<bool> HasHolder(const TaskPlace& place);
// Makes this process, and each shim that it launches with the directory, a
// holder.
Result<void> Hold(const TaskPlace& place);

// The result of an exit record.
ExitResult ResultOf(const shim::Message& exited);
// The result of a task whose shim was killed.
ExitResult LostResult();
// The result of a lost task that has ended: its record's if it has one.
Result<ExitResult> ResultOfLost(const TaskPlace& place);

// Says whether a process of a lost task still runs.
Result<bool> LostTaskLives(const Host& host, const TaskPlace& place);
// Waits for the end of the processes of a lost task. Aborted once `interrupt`
// can be read; DeadlineExceeded at the deadline.
Result<void> AwaitLostTask(
    const Host& host, const TaskPlace& place, int interrupt,
    std::optional<std::chrono::steady_clock::time_point> deadline = {});

}  // namespace mountd::driver
