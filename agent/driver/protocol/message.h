// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"

// Messages between a task driver and mountd-task-shim. A shim outlives upgrades
// of the driver, so these numbers and bytes never change. All numbers are
// little-endian:
//
//   header   "MTSH", u16 version, u16 kind
//   field    u16 tag, u16 0, u32 size, and so many bytes
//
// A number is a field of 8 bytes. A newer driver may add kinds and tags without
// a new version. A shim answers NotSupported to a kind that this shim does not
// know. The shim ignores an unknown tag below kMustUnderstand, and refuses a
// message with any other unknown tag.
namespace mountd::shim {

inline constexpr std::uint16_t kVersion = 1;
inline constexpr std::uint16_t kMustUnderstand = 0x8000;
inline constexpr std::size_t kMostBytes = std::size_t{64} << 10U;

enum class Kind : std::uint16_t {
  // The message in the memory file that a shim starts with.
  kCreate = 1,

  // Requests. A shim answers each with one message.
  // kStatus; fd: the pidfd of the task's first process. No fd comes if the user
  // has too many fds in flight.
  kAwaitCreated = 16,
  kStart = 17,      // kDone
  kWait = 18,       // kExited, when the task has ended
  kSignal = 19,     // kSignalNumber; kDone
  kStop = 20,       // kSignalNumber, kTimeoutMs; kExited
  kGetStatus = 21,  // kStatus; fd: as of kAwaitCreated, while there is one
  // fds: process.json, stdin, stdout, stderr; with kConsole only process.json.
  // kExecStarted, and at the end of the process kExited.
  kExec = 22,
  kDelete = 23,  // kForce; kDone, and the shim ends

  // Answers.
  kDone = 64,
  kFailed = 65,
  kStatus = 66,
  kExited = 67,       // also the bytes of the file "exit"
  kExecStarted = 68,  // fds: the pidfd, and with kConsole the pty's master
};

enum class Tag : std::uint16_t {
  // Fields of kCreate.
  kContainer = 1,    // the runtime's id of the container
  kRuntime = 2,      // repeated: the runtime's program, then global options
  kRuntimeRoot = 3,  // the directory of the runtime's state
  kBundle = 4,
  kPassedFds = 5,  // bits of PassedFd (launch.h)
  // The root file system that the shim mounts: mount(2)'s arguments. A type of
  // "bind" is MS_BIND | MS_REC.
  kMountType = 6,
  kMountSource = 7,
  kMountTarget = 8,
  kMountOptions = 9,
  kStdoutSink = 10,  // a Sink
  kStderrSink = 11,
  kStdoutPath = 12,  // of Sink::kFiles and Sink::kFifo
  kStderrPath = 13,
  kLogFileBytes = 14,  // of Sink::kFiles: the size of one file
  kLogFiles = 15,      // of Sink::kFiles: how many files stay
  // 1: config.json names the container's cgroup to the runtime, so the runtime
  // does not start there.
  kRuntimeJoins = 16,

  // Fields of requests.
  kSignalNumber = 32,
  kTimeoutMs = 33,
  kForce = 34,    // 1: end the task first
  kConsole = 35,  // 1: with a terminal

  // Fields of answers.
  kCode = 64,  // of kFailed: mountd::Code
  kErrno = 65,
  kOperation = 66,
  kObject = 67,
  kDetail = 68,
  kState = 69,  // a State
  kPid = 70,
  kExitCode = 71,
  kExitSignal = 72,  // absent: the process ended by itself
  kOomKilled = 73,   // 1: the kernel killed a process of the task's for memory
  kStdoutDropped = 74,  // bytes that the sink did not take in time
  kStderrDropped = 75,
};

enum class Sink : std::uint8_t {
  kNone = 0,    // /dev/null
  kPassed = 1,  // the task has the fd that the driver passed
  kFiles = 2,   // rotated files "PATH.0", "PATH.1", …
  kFifo = 3,    // a FIFO of the driver's
};

enum class State : std::uint8_t {
  kCreating = 0,
  kCreated = 1,
  kRunning = 2,
  kExited = 3,
};

// Owns the bytes of one message.
class Message {
 public:
  explicit Message(Kind kind);
  // InvalidArgument for bytes that are no message; NotSupported for another
  // version or a field that must be understood.
  static Result<Message> Parse(std::string_view bytes);
  static Message Failed(const Error& error);

  Message& Add(Tag tag, std::string_view text);
  Message& Add(Tag tag, std::uint64_t number);

  Kind kind() const;
  const std::string& bytes() const { return bytes_; }
  // The first field with the tag; empty or 0 without such a field.
  std::string_view Text(Tag tag) const;
  std::uint64_t Number(Tag tag) const;
  std::vector<std::string> Texts(Tag tag) const;
  Error ToError() const;  // of kFailed

 private:
  explicit Message(std::string_view bytes) : bytes_(bytes) {}

  std::string bytes_;
};

}  // namespace mountd::shim
