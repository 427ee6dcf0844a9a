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

// Takes output of the process. After an error the process's end of the output
// is closed, so a process that goes on to write gets SIGPIPE.
using OutputTaker = std::function<Result<void>(std::string_view)>;

// One process of exec, between its start and its end. The driver moves the
// bytes, because the runtime gives the process's own ends to the process's
// user.
struct ExecPump {
  int shutdown = -1;  // borrowed; can be read once the driver shuts down
  int caller = -1;    // borrowed; poll(2) reports it once the caller has gone
  std::string task_id;
  int stdin_fd = -1;  // borrowed; -1: the process has no input
  OutputTaker take_output;
  OutputTaker take_error;
  std::optional<std::chrono::steady_clock::time_point> deadline;
  // Until the shim tells the start of the process: the time at which the pump
  // gives up. Output may come earlier than that message, and input waits.
  std::optional<std::chrono::steady_clock::time_point> start_deadline;
  // The driver's ends; with a terminal `output` is its master, and the others
  // are not valid.
  UniqueFd input;
  UniqueFd output;
  UniqueFd error;
  bool has_terminal = false;

  // Moves bytes until the shim tells the end of the process, and then what is
  // left of the output. The shim's error if it could not start the process.
  // Aborted after the shutdown, and without the caller.
  // DeadlineExceeded at the deadline. The process ends with the connection
  // after an error. An error of a taker is the result once the process has
  // ended.
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
  // False: nothing more comes, or nothing for now.
  bool MoveOutput(UniqueFd& from, const OutputTaker& taker);
  void Drain();

  std::string waiting_;  // of the input
  Result<void> taken_;   // the first error of a taker
};

}  // namespace mountd::driver
