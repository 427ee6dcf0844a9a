// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::driver {

// One open file of a log. The fd stays readable after the rotation has removed
// the file.
struct LogFile {
  UniqueFd fd;
  std::uint64_t number = 0;
  dev_t device = 0;
  ino_t inode = 0;
  std::uint64_t size = 0;  // when it was opened
};

// Owns a directory with the files of one stream, "STREAM.0", "STREAM.1" and so
// on. Never follows a link, and opens only regular files of the directory's
// owner, because the reader may be root, and the owner could place a link to
// root's files. Keeps no list of the files, because there may be any number of
// them.
class LogDirectory {
 public:
  // NotFound if the directory is not there.
  static Result<LogDirectory> Open(const std::string& path,
                                   const std::string& stream);

  // Returns the lowest number that is at least `number`.
  Result<std::optional<std::uint64_t>> LowestFrom(std::uint64_t number) const;
  // Returns the highest number below `number`; without `number`, the highest of
  // all.
  Result<std::optional<std::uint64_t>> HighestBelow(
      std::optional<std::uint64_t> number) const;

  // Returns nullopt if the file is not there. FailedPrecondition for anything
  // but a regular file, PermissionDenied for another user's file.
  Result<std::optional<LogFile>> OpenFile(std::uint64_t number) const;
  // Returns whether the name of this file now belongs to another file.
  bool IsReplaced(const LogFile& file) const;
  // Returns whether somebody has removed the directory.
  bool IsRemoved() const;

  int fd() const { return directory_.get(); }
  std::string FileName(std::uint64_t number) const;

 private:
  LogDirectory(std::string path, const std::string& stream, UniqueFd directory,
               uid_t owner);

  // Calls `each` with the number of each file.
  template <typename Each>
  Result<void> ForEachNumber(const Each& each) const;
  std::optional<std::uint64_t> NumberOfName(std::string_view name) const;
  Error Refuse(Code code, std::uint64_t number, std::string why) const;

  std::string path_;
  std::string prefix_;  // "STREAM."
  UniqueFd directory_;
  uid_t owner_ = 0;
};

}  // namespace mountd::driver
