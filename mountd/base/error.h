// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace mountd {

// The kind of a failure, which a client branches on. Each code has one D-Bus
// error `org.mountd1.Error.<Name>`. The executor sends these numbers on the
// wire, so codes are only ever added.
enum class Code : std::uint32_t {
  kNotFound = 1,
  kAlreadyExists = 2,
  kInvalidArgument = 3,
  kPermissionDenied = 4,
  kBusy = 5,
  kUnavailable = 6,
  kDeadlineExceeded = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kNotSupported = 11,
  kInProgress = 12,
  kInternal = 13,
};
inline constexpr Code kLastCode = Code::kInternal;

// Returns the last part of the D-Bus error name, such as "NotFound".
std::string_view CodeName(Code code);

// Returns the code of a name; kInternal for a name this release does not know.
Code CodeFromName(std::string_view name);

// Says which process is away, if a call failed with kUnavailable. A caller acts
// on it: it looks at the node, calls again soon, or looks at the plugin.
enum class Away {
  kNone,    // no process is away, or mountd does not know which
  kDaemon,  // mountd is not there, or never answers
  // mountd, or a process that mountd works through (mountd-exec, mountd-csi),
  // has ended, and systemd starts it again.
  kRestarting,
  kPlugin,  // mountd answers, and the CSI or CNI plugin does not
};

// Returns "daemon", "restarting", "plugin", or "" for kNone.
std::string_view AwayName(Away away);

// One failure. `op` names the step that failed ("move_mount",
// "NodeStageVolume"). `object` names the thing that the step was applied to, as
// the caller knows that thing: an id, never a host path the caller did not
// name. `sys_errno` is 0 where no system call failed.
//
// Never holds secrets, mount flags, or text from a plugin that was not
// scrubbed.
struct Error {
  Code code = Code::kInternal;
  std::string op;
  std::string object;
  std::string detail;
  int sys_errno = 0;
  // True for a refusal (kPermissionDenied) of a call that an administrator may
  // make. The flag does not leave the process.
  bool administrator_may = false;
  // True for a refusal (kBusy) because a search could not look at everything.
  // The flag does not leave the process.
  bool is_unsure = false;
  Away away = Away::kNone;  // of kUnavailable only

  // "move_mount web/data: source is not a directory (EINVAL)"
  std::string Message() const;
};

inline Error MakeError(Code code, std::string op, std::string object,
                       std::string detail = {}) {
  Error error;
  error.code = code;
  error.op = std::move(op);
  error.object = std::move(object);
  error.detail = std::move(detail);
  return error;
}

// Marks a refusal of a call that an administrator may make.
inline Error ButAdministrators(Error refusal) {
  refusal.administrator_may = true;
  return refusal;
}

// Sets which process is away in a kUnavailable error. Leaves other errors
// alone.
inline Error WithAway(Away away, Error error) {
  if (error.code == Code::kUnavailable) {
    error.away = away;
  }
  return error;
}

// Returns the Error for a failed system call. `err` is its errno, which the
// caller reads in the same expression as the call.
Error ErrnoError(int err, std::string op, std::string object,
                 std::string detail = {});

// Returns the Error for a failed call that makes a process. ResourceExhausted
// for EAGAIN, because fork(2) reports its limit of processes with it and
// waiting does not help. Unavailable for ECHILD, because somebody else killed
// the process.
Error ForkError(int err, std::string op, std::string object);

// Returns the code for system calls whose errno has no more special meaning.
Code CodeFromErrno(int err);

}  // namespace mountd
