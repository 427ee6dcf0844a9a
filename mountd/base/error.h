// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace mountd {

// What went wrong, as a client branches on it. One to one with the D-Bus errors
// `org.mountd1.Error.<Name>`; the numbers are also the executor's wire values,
// so they are only ever added to.
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

// "NotFound" and so on: the last part of the D-Bus error name.
std::string_view CodeName(Code code);

// The reverse of CodeName; kInternal for a name this release does not know.
Code CodeFromName(std::string_view name);

// One failure: which operation, on which object, why. `op` names the step that
// failed ("move_mount", "NodeStageVolume"); `object` what it was done to, as
// the caller knows it (an id, never a host path the caller did not name);
// `sys_errno` is 0 where no system call failed.
//
// Never holds secrets, mount flags, or text from a plugin that was not
// scrubbed.
struct Error {
  Code code = Code::kInternal;
  std::string op;
  std::string object;
  std::string detail;
  int sys_errno = 0;
  // Of a refusal (kPermissionDenied): an administrator had not met it. It does
  // not leave the process.
  bool administrator_may = false;

  // "move_mount web/data: source is not a directory (EINVAL)"
  std::string Message() const;
};

inline Error MakeError(Code code, std::string op, std::string object,
                       std::string detail = {}) {
  return Error{code, std::move(op), std::move(object), std::move(detail),
               0,    false};
}

// A refusal that an administrator would not have met.
inline Error ButAdministrators(Error refusal) {
  refusal.administrator_may = true;
  return refusal;
}

// The Error for a failed system call; `err` is its errno, taken by the caller
// in the same expression as the call.
Error ErrnoError(int err, std::string op, std::string object,
                 std::string detail = {});

// The same of what makes a process: EAGAIN is the limit of processes then,
// fork(2), and nothing that is over soon. ECHILD is Unavailable: others killed
// the process.
Error ForkError(int err, std::string op, std::string object);

// errno -> Code, for system calls whose errno has no more special meaning.
Code CodeFromErrno(int err);

}  // namespace mountd
