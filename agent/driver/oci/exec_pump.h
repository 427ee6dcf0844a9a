// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "agent/driver/protocol/shim_connection.h"
#include "agent/driver/task_status.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::driver {

// Takes output of the process. After an error the driver closes its end of the
// output, so a process that writes more gets SIGPIPE.
using OutputTaker = std::function<Result<void>(std::string_view)>;

// One process of exec, between its start and its end. The driver makes the
// process's streams and moves the bytes itself, because the runtime changes the
// owner of the streams that it gets to the process's user.
struct ExecPump {
  int shutdown = -1;  // borrowed; can be read once the driver shuts down
  int caller = -1;    // borrowed; poll(2) reports it once the caller has gone
  std::string task_id;
  int stdin_fd = -1;  // borrowed; -1: the process has no input
  OutputTaker take_output;
  OutputTaker take_error;
  std::optional<std::chrono::steady_clock::time_point> deadline;
  // The time at which the pump gives up, until the shim reports the start of
  // the process. Output may come before that report, and input waits for it.
  std::optional<std::chrono::steady_clock::time_point> start_deadline;
  // The driver's ends; with a terminal `output` is its master, and the others
  // are not valid.
  UniqueFd input;
  UniqueFd output;
  UniqueFd error;
  bool has_terminal = false;

  // Moves bytes until the shim reports the end of the process, and then the
  // rest of the output. Returns the shim's error if the shim could not start
  // the process. Aborted after the shutdown, and once the caller has gone.
  // DeadlineExceeded at the deadline. After an error the process ends with the
  // connection. If a taker fails, Run returns the taker's error once the
  // process has ended.
  Result<ExitResult> Run(shim::ShimConnection& shim);

  // Writes all bytes to the caller's file, and waits while a non-blocking file
  // takes none. -1: the bytes are dropped. Errors as of Run.
  Result<void> WriteTo(int fd, std::string_view bytes) const;

 private:
  std::optional<std::chrono::steady_clock::time_point> End() const;
  Error TooLate() const;
  // Takes the shim's message. Nothing if the process has begun, and not ended.
  Result<std::optional<ExitResult>> Hear(shim::ShimConnection& shim);
  void MoveInput();
  // False if there is no output now, or none can come any more.
  bool MoveOutput(UniqueFd& from, const OutputTaker& taker);
  void Drain();

  std::string waiting_;  // of the input
  Result<void> taken_;   // the first error of a taker
};

}  // namespace mountd::driver
