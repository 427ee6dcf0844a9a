// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "agent/client.h"
#include "agent/mountctl/commands/commands.h"

namespace mountd::agent {

// Shows on a terminal what a slow command is waiting for. Once a call takes
// longer than a second, writes mountd's current step of that call into one line
// of stderr, again and again, and clears the line before anything else is
// printed. Does nothing if stderr is no terminal, or with --json. Owns a
// connection and a thread for this, so it does not change the command's own
// calls.
class WaitingLine {
 public:
  explicit WaitingLine(const Context& context);
  ~WaitingLine();
  WaitingLine(const WaitingLine&) = delete;
  WaitingLine& operator=(const WaitingLine&) = delete;

  // Returns options for the Client whose calls are shown. That Client must not
  // outlive this object.
  const ClientOptions& options() const { return options_; }

 private:
  using Clock = std::chrono::steady_clock;

  void Called(std::string_view method);
  void Loop();
  bool AwaitLongCall(std::unique_lock<std::mutex>& lock);
  void Show(Client& client, std::unique_lock<std::mutex>& lock);
  void Clear();

  const ClientOptions asking_;
  ClientOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string method_;       // mutex_; "" between two calls
  std::uint64_t call_ = 0;   // mutex_; how many calls there were
  Clock::time_point begun_;  // mutex_; when the call began
  bool shown_ = false;       // mutex_
  bool stopping_ = false;    // mutex_
  std::thread thread_;
};

// Returns the operation of this user and method whose age is nearest to
// `since`; null if there is none.
const OperationStatus* FindOwn(const std::vector<OperationStatus>& all,
                               std::uint32_t uid, std::string_view method,
                               std::chrono::milliseconds since);

// Returns the text about an operation, at most `width` characters long.
std::string WaitingText(const OperationStatus& operation, std::size_t width);

}  // namespace mountd::agent
