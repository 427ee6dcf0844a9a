// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/driver/shim/setup.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::shim {

// Milliseconds of CLOCK_MONOTONIC.
using Milliseconds = std::int64_t;

// Owns one stream of the task: a pipe, of which the task has one end, and its
// sink. Moves bytes within the kernel (splice(2)), so a pump has no buffer but
// the pipe. The pipe keeps bytes while a sink is full or a FIFO has no reader.
// If the pipe fills up, the pump drops bytes after kPatience and counts them,
// until the sink takes bytes again. So a task waits for a sink for about
// kPatience at most, and no memory grows.
class LogPump {
 public:
  static constexpr Milliseconds kPatience = 1000;

  // The setup outlives the pump.
  explicit LogPump(StreamSetup* stream) : stream_(stream) {}

  // Opens the task's end. Valid until CloseTasksEnd.
  Result<int> OpenTasksEnd();
  void CloseTasksEnd() { tasks_end_.reset(); }

  // The fd to wait for, and poll(2)'s events; -1 if the pump waits for time
  // only or has ended.
  int WaitFd() const;
  short WaitEvents() const;
  // The time at which the caller must call Pump, even without an event.
  std::optional<Milliseconds> WakeAt() const;

  // Moves what can be moved without waiting.
  void Pump(Milliseconds now);
  std::uint64_t dropped() const { return dropped_; }

 private:
  enum class Moved { kSome, kNothing, kEnd, kSinkFull };

  bool IsFiles() const { return stream_->sink == Sink::kFiles; }
  Moved MoveSome(Milliseconds now);
  Moved AfterFailedMove(Milliseconds now);
  // Drops all bytes if the sink has no room for too long.
  void DropIfTooLong(Milliseconds now);
  bool OpenSink(Milliseconds now);
  bool OpenFifo();
  bool OpenFile();
  void RemoveOldFiles() const;
  std::string FilePath(std::uint64_t number) const;

  StreamSetup* stream_;
  UniqueFd tasks_end_;
  UniqueFd pipe_;  // the shim's end; closed after the stream's end
  UniqueFd sink_;
  std::optional<std::uint64_t> file_;  // the number of the current file
  std::uint64_t file_size_ = 0;        // of the current file
  std::uint64_t dropped_ = 0;
  std::optional<Milliseconds> full_since_;
  bool is_dropping_ = false;
  Milliseconds next_try_ = 0;
};

}  // namespace mountd::shim
