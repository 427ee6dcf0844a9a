// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "agent/driver/protocol/message.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::shim {

struct Answer {
  Message message;
  std::vector<UniqueFd> fds;
};

// Owns a connection to a shim. Not thread-safe. A caller that waits for the
// task's end uses a connection of its own.
class ShimConnection {
 public:
  explicit ShimConnection(UniqueFd socket) : socket_(std::move(socket)) {}
  // Connects to the shim of the task. NotFound if there never was a shim.
  // Unavailable with ECONNREFUSED if nobody listens, because the shim has
  // ended. Each other error says nothing about the shim. DeadlineExceeded if
  // the shim accepts no connection for 10 seconds.
  static Result<ShimConnection> Open(int task_directory);

  // Sends the request, and returns its answer. If the answer is kFailed,
  // returns the error in it. Unavailable if the shim ends; DeadlineExceeded if
  // no answer comes in time. After these two errors the connection is of no
  // more use.
  Result<Answer> Call(const Message& request, std::span<const int> fds = {},
                      std::optional<std::chrono::milliseconds> timeout = {});
  // Sends the request, whose answers Next returns. Errors as of Call.
  Result<void> Post(const Message& request, std::span<const int> fds = {});
  // Returns the next answer, such as kExited after kExecStarted.
  Result<Answer> Next(std::optional<std::chrono::milliseconds> timeout = {});
  int fd() const { return socket_.get(); }

 private:
  UniqueFd socket_;
};

// Returns the exit record of the task: kExited, or kFailed if the container
// could not be made. NotFound if the shim has written none.
Result<Message> ReadExit(int task_directory);

}  // namespace mountd::shim
