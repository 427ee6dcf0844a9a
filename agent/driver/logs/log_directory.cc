// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/logs/log_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>

#include "mountd/base/number.h"

namespace mountd::driver {
namespace {

struct CloseEntries {
  void operator()(DIR* entries) const { ::closedir(entries); }
};

}  // namespace

LogDirectory::LogDirectory(std::string path, const std::string& stream,
                           UniqueFd directory, uid_t owner)
    : path_(std::move(path)),
      prefix_(stream + "."),
      directory_(std::move(directory)),
      owner_(owner) {}

Result<LogDirectory> LogDirectory::Open(const std::string& path,
                                        const std::string& stream) {
  UniqueFd directory(
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat stat = {};
  if (!directory.valid() || ::fstat(directory.get(), &stat) != 0) {
    return ErrnoError(errno, "open the directory of the logs", path);
  }
  return LogDirectory(path, stream, std::move(directory), stat.st_uid);
}

Result<std::optional<std::uint64_t>> LogDirectory::LowestFrom(
    std::uint64_t number) const {
  std::optional<std::uint64_t> lowest;
  MOUNTD_TRY(ForEachNumber([&](std::uint64_t found) {
    if (found >= number) {
      lowest = std::min(lowest.value_or(found), found);
    }
  }));
  return lowest;
}

Result<std::optional<std::uint64_t>> LogDirectory::HighestBelow(
    std::optional<std::uint64_t> number) const {
  std::optional<std::uint64_t> highest;
  MOUNTD_TRY(ForEachNumber([&](std::uint64_t found) {
    if (!number || found < *number) {
      highest = std::max(highest.value_or(found), found);
    }
  }));
  return highest;
}

Result<std::optional<LogFile>> LogDirectory::OpenFile(
    std::uint64_t number) const {
  LogFile file;
  file.number = number;
  // O_NONBLOCK, because the open of a FIFO or of a leased file would block.
  file.fd.reset(
      ::openat(directory_.get(), FileName(number).c_str(),
               O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC));
  if (!file.fd.valid() && errno == ENOENT) {
    return std::optional<LogFile>();
  }
  if (!file.fd.valid() && errno == ELOOP) {
    return Refuse(
        Code::kFailedPrecondition, number,
        "is a symbolic link, which mountd does not follow; remove it");
  }
  if (!file.fd.valid() && errno == ENXIO) {
    return Refuse(Code::kFailedPrecondition, number,
                  "is a socket or a device; remove it");
  }
  struct stat stat = {};
  if (!file.fd.valid() || ::fstat(file.fd.get(), &stat) != 0) {
    return ErrnoError(errno, "open", path_ + "/" + FileName(number));
  }
  if (!S_ISREG(stat.st_mode)) {
    return Refuse(Code::kFailedPrecondition, number,
                  "is not a regular file; remove it");
  }
  if (stat.st_uid != owner_) {
    return Refuse(Code::kPermissionDenied, number,
                  "belongs to the uid " + std::to_string(stat.st_uid) +
                      ", and the directory to " + std::to_string(owner_) +
                      "; remove the file");
  }
  file.device = stat.st_dev;
  file.inode = stat.st_ino;
  file.size = static_cast<std::uint64_t>(stat.st_size);
  return std::optional<LogFile>(std::move(file));
}

bool LogDirectory::IsReplaced(const LogFile& file) const {
  struct stat stat = {};
  return ::fstatat(directory_.get(), FileName(file.number).c_str(), &stat,
                   AT_SYMLINK_NOFOLLOW) == 0 &&
         (stat.st_dev != file.device || stat.st_ino != file.inode);
}

bool LogDirectory::IsRemoved() const {
  struct stat stat = {};
  return ::fstat(directory_.get(), &stat) != 0 || stat.st_nlink == 0;
}

std::string LogDirectory::FileName(std::uint64_t number) const {
  return prefix_ + std::to_string(number);
}

template <typename Each>
Result<void> LogDirectory::ForEachNumber(const Each& each) const {
  // Opens the directory again for each look, because two fds of one open file
  // share the position in the directory.
  UniqueFd again(
      ::openat(directory_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // ENOENT: somebody has removed the directory, so it has no file.
  if (!again.valid() && errno == ENOENT) {
    return Ok();
  }
  const std::unique_ptr<DIR, CloseEntries> entries(
      again.valid() ? ::fdopendir(again.get()) : nullptr);
  if (!entries) {
    return ErrnoError(errno, "open the directory of the logs", path_);
  }
  again.release();
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(entries.get());
    if (entry == nullptr) {
      // ENOENT: somebody has removed the directory meanwhile.
      return errno == 0 || errno == ENOENT
                 ? Ok()
                 : ErrnoError(errno, "readdir", path_);
    }
    if (const auto number = NumberOfName(&entry->d_name[0])) {
      each(*number);
    }
  }
}

std::optional<std::uint64_t> LogDirectory::NumberOfName(
    std::string_view name) const {
  if (!name.starts_with(prefix_)) {
    return std::nullopt;
  }
  name.remove_prefix(prefix_.size());
  const auto number = ParseNumber<std::uint64_t>(name);
  // A shim writes 1 as "1", and never as "01". A shim also never uses the
  // largest number, because no number follows it.
  if (!number || std::to_string(*number) != name ||
      *number > std::numeric_limits<std::int64_t>::max()) {
    return std::nullopt;
  }
  return number;
}

Error LogDirectory::Refuse(Code code, std::uint64_t number,
                           std::string why) const {
  return MakeError(code, "open", path_ + "/" + FileName(number),
                   std::move(why));
}

}  // namespace mountd::driver
