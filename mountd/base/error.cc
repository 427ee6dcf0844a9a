// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/error.h"

#include <array>
#include <cstring>

namespace mountd {
namespace {

constexpr std::array<std::string_view, 13> kCodeNames = {
    "NotFound",
    "AlreadyExists",
    "InvalidArgument",
    "PermissionDenied",
    "Busy",
    "Unavailable",
    "DeadlineExceeded",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "NotSupported",
    "InProgress",
    "Internal",
};

}  // namespace

std::string_view CodeName(Code code) {
  const auto index = static_cast<std::uint32_t>(code) - 1;
  return index < kCodeNames.size() ? kCodeNames.at(index) : "Internal";
}

Code CodeFromName(std::string_view name) {
  for (std::uint32_t i = 0; i < kCodeNames.size(); ++i) {
    if (kCodeNames.at(i) == name) {
      return static_cast<Code>(i + 1);
    }
  }
  return Code::kInternal;
}

std::string_view AwayName(Away away) {
  switch (away) {
    case Away::kDaemon:
      return "daemon";
    case Away::kRestarting:
      return "restarting";
    case Away::kPlugin:
      return "plugin";
    case Away::kNone:
      break;
  }
  return "";
}

std::string Error::Message() const {
  std::string text = op;
  if (!object.empty()) {
    text += text.empty() ? object : " " + object;
  }
  if (!detail.empty()) {
    text += text.empty() ? detail : ": " + detail;
  }
  if (sys_errno != 0) {
    const char* name = strerrorname_np(sys_errno);
    text += " (" +
            (name != nullptr ? std::string(name) : std::to_string(sys_errno)) +
            ")";
  }
  return text;
}

Error ErrnoError(int err, std::string op, std::string object,
                 std::string detail) {
  return Error{CodeFromErrno(err), std::move(op), std::move(object),
               std::move(detail), err};
}

Error ForkError(int err, std::string op, std::string object) {
  Error error = ErrnoError(err, std::move(op), std::move(object));
  // fork(2) fails with EAGAIN at the limit of processes. Calling again does not
  // help against that.
  if (err == EAGAIN) {
    error.code = Code::kResourceExhausted;
  } else if (err == ECHILD) {
    error.code = Code::kUnavailable;
    error.detail =
        "something other than mountd killed the process of this call; call "
        "again";
  }
  return error;
}

Code CodeFromErrno(int err) {
  switch (err) {
    case ENOENT:
    case ENODEV:
    case ENXIO:
    case ESRCH:
      return Code::kNotFound;
    case EEXIST:
    case EADDRINUSE:
      return Code::kAlreadyExists;
    case EINVAL:
    case ENAMETOOLONG:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case EXDEV:
      return Code::kInvalidArgument;
    case EPERM:
    case EACCES:
    case EROFS:
      return Code::kPermissionDenied;
    case EBUSY:
    case ENOTEMPTY:
      return Code::kBusy;
    case ECONNREFUSED:
    case ECONNRESET:
    case ENOTCONN:
    case EPIPE:
    case EAGAIN:
      return Code::kUnavailable;
    case ETIMEDOUT:
      return Code::kDeadlineExceeded;
    case ENOSPC:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EDQUOT:
      return Code::kResourceExhausted;
    case ENOSYS:
    case EOPNOTSUPP:
    case EAFNOSUPPORT:
    case EPROTONOSUPPORT:
      return Code::kNotSupported;
    default:
      return Code::kInternal;
  }
}

}  // namespace mountd
