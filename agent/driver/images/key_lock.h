// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::driver {

// Owns a lock of one key: an open file description lock (fcntl(2),
// F_OFD_SETLK) on one byte of a file that all keys share, so that no lock file
// stays behind. The kernel releases the lock when the last process with the fd
// has closed it, so no killed process keeps it. Two keys share a byte with a
// probability of 2^-60; they then wait for each other.
class KeyLock {
 public:
  enum class Mode { kShared, kExclusive };

  // Takes the lock of `key`, 64 hexadecimal digits. Busy if another holder's
  // mode excludes `mode`. `file` is an absolute path; makes the file, mode
  // 0600.
  static Result<KeyLock> TryTake(const std::string& file,
                                 const std::string& key, Mode mode);

  // Waits for the lock. DeadlineExceeded at `deadline`.
  static Result<KeyLock> Take(const std::string& file, const std::string& key,
                              Mode mode,
                              std::chrono::steady_clock::time_point deadline);

  // Lets others share the lock, without a moment in which it is free.
  Result<void> Share();

  int fd() const { return fd_.get(); }
  UniqueFd TakeFd() && { return std::move(fd_); }

 private:
  KeyLock(UniqueFd fd, std::string key)
      : fd_(std::move(fd)), key_(std::move(key)) {}
  Result<void> Set(Mode mode);

  UniqueFd fd_;
  std::string key_;
};

}  // namespace mountd::driver
