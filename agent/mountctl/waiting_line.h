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
#include "agent/mountctl/commands.h"

namespace mountd::agent {

// What a command waits for, as one line of a terminal that is written again and
// again, and is gone before anything else is printed: once a call takes longer
// than a second, what mountd says that it is at. On stderr, if that is a
// terminal, and not with --json. Changes nothing of the calls: it asks on a
// connection and a thread of its own.
class WaitingLine {
 public:
  explicit WaitingLine(const Context& context);
  ~WaitingLine();
  WaitingLine(const WaitingLine&) = delete;
  WaitingLine& operator=(const WaitingLine&) = delete;

  // The context's, for the client whose calls are to be shown; it must not
  // outlive this.
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
  std::uint64_t call_ = 0;   // mutex_; how many there were
  Clock::time_point begun_;  // mutex_; the call
  bool shown_ = false;       // mutex_
  bool stopping_ = false;    // mutex_
  std::thread thread_;
};

// The one that is the caller's and of this method, and began when the call did,
// as near as any; null if there is none.
const OperationStatus* FindOwn(const std::vector<OperationStatus>& all,
                               std::uint32_t uid, std::string_view method,
                               std::chrono::milliseconds since);

// What is shown of it, in at most so many characters.
std::string WaitingText(const OperationStatus& operation, std::size_t width);

}  // namespace mountd::agent
