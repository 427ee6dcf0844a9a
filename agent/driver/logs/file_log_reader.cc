// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/logs/file_log_reader.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <limits>

#include "agent/driver/logs/log_tail.h"

namespace mountd::driver {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A wait may be "for ever", which a time point cannot hold.
constexpr milliseconds kMostWait = std::chrono::hours(24);
constexpr int kMostTries = 16;

Result<void> CheckTaskName(const std::string& task) {
  // Room for ".stdout." and a number.
  constexpr std::size_t kMostBytes = NAME_MAX - 28;
  if (task.empty() || task.size() > kMostBytes ||
      task.find('/') != std::string::npos ||
      task.find('\0') != std::string::npos) {
    return MakeError(Code::kInvalidArgument, "OpenLog", task,
                     "a task's name has 1 to " + std::to_string(kMostBytes) +
                         " bytes and no '/'");
  }
  return Ok();
}

}  // namespace

Result<std::unique_ptr<LogReader>> OpenFileLog(const LogRequest& request) {
  MOUNTD_TRY(CheckTaskName(request.task));
  if (!request.directories.logs.starts_with('/')) {
    return MakeError(Code::kInvalidArgument, "OpenLog", request.task,
                     "directories.logs is not an absolute path");
  }
  MOUNTD_ASSIGN(
      auto directory,
      LogDirectory::Open(
          request.directories.logs,
          request.task + (request.standard_error ? ".stderr" : ".stdout")));
  return FileLogReader::Open(
      std::move(directory),
      {request.config.max_file_bytes, request.tail_lines, request.follow});
}

FileLogReader::FileLogReader(LogDirectory directory, const Options& options)
    : directory_(std::move(directory)), options_(options) {
  // A reader without follow never waits, and a user has few inotify instances.
  if (options.follow) {
    watch_.emplace(directory_.fd());
  }
}

Result<std::unique_ptr<LogReader>> FileLogReader::Open(LogDirectory directory,
                                                       const Options& options) {
  std::unique_ptr<FileLogReader> reader(
      new FileLogReader(std::move(directory), options));
  MOUNTD_TRY(reader->FindBegin());
  return std::unique_ptr<LogReader>(std::move(reader));
}

Result<void> FileLogReader::FindBegin() {
  MOUNTD_ASSIGN(auto last, OpenFirst([this] {
                  return directory_.HighestBelow(std::nullopt);
                }));
  if (!options_.follow) {
    end_ = last ? Place{last->number, last->size} : Place();
  }
  if (!last) {
    return Ok();
  }
  LogPlace place;
  if (options_.tail_lines) {
    const std::uint64_t end = last->size;
    MOUNTD_ASSIGN(place, FindTail(directory_, LogPlace{std::move(*last), end},
                                  *options_.tail_lines));
  } else {
    MOUNTD_ASSIGN(auto first,
                  OpenFirst([this] { return directory_.LowestFrom(0); }));
    place.file = std::move(first ? *first : *last);
  }
  expected_ = place.file.number;
  GoTo(std::move(place.file));
  offset_ = place.offset;
  return Ok();
}

template <typename Choose>
Result<std::optional<LogFile>> FileLogReader::OpenFirst(
    const Choose& choose) const {
  for (int i = 0; i < kMostTries; ++i) {
    MOUNTD_ASSIGN(const auto number, choose());
    if (!number) {
      return std::optional<LogFile>();
    }
    MOUNTD_ASSIGN(auto file, directory_.OpenFile(*number));
    if (file) {
      return file;
    }
    // The rotation has removed the file since `choose` found it.
  }
  return TooSlow();
}

Error FileLogReader::TooSlow() const {
  return MakeError(Code::kUnavailable, "open", directory_.FileName(expected_),
                   "the rotation removes each file before this process can "
                   "open it; call again, or give the log larger files");
}

Result<std::optional<std::string>> FileLogReader::Read(milliseconds wait) {
  const auto deadline =
      steady_clock::now() + std::clamp(wait, milliseconds(0), kMostWait);
  for (;;) {
    MOUNTD_ASSIGN(auto bytes, Look());
    if (!bytes) {
      return bytes;
    }
    if (!bytes->empty()) {
      last_byte_ = bytes->back();
      return bytes;
    }
    const auto left =
        std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    if (left <= milliseconds(0) || !watch_) {
      return bytes;
    }
    watch_->Wait(left);
  }
}

Result<std::optional<std::string>> FileLogReader::Look() {
  // Reads the flag before the files, because a writer writes its last bytes
  // before it ends. So a last look finds all bytes.
  const bool is_last_look =
      !options_.follow || writer_has_ended_ || directory_.IsRemoved();
  for (;;) {
    MOUNTD_ASSIGN(std::string bytes, ReadCurrent());
    if (!bytes.empty()) {
      return std::optional(std::move(bytes));
    }
    if (IsPastEnd()) {
      return std::optional<std::string>();
    }
    MOUNTD_ASSIGN(auto next, OpenNext());
    if (!next) {
      return is_last_look ? std::optional<std::string>()
                          : std::optional<std::string>("");
    }
    MOUNTD_ASSIGN(bytes, ReadCurrent());
    if (bytes.empty()) {
      bytes = GoTo(std::move(*next));
    }
    if (!bytes.empty()) {
      return std::optional(std::move(bytes));
    }
  }
}

Result<std::string> FileLogReader::ReadCurrent() {
  std::string bytes;
  while (current_ && bytes.empty() && !IsPastEnd()) {
    SkipHole();
    bytes.resize(WantedBytes());
    const ssize_t got = ::pread(current_->fd.get(), bytes.data(), bytes.size(),
                                static_cast<off_t>(offset_));
    if (got < 0 && errno == EINTR) {
      bytes.clear();
      continue;
    }
    if (got < 0) {
      return ErrnoError(errno, "read", directory_.FileName(current_->number));
    }
    bytes.resize(static_cast<std::size_t>(got));
    if (got == 0) {
      return AfterNoBytes();
    }
    offset_ += static_cast<std::uint64_t>(got);
    if (is_truncated_) {
      bytes.erase(0, std::min(bytes.find_first_not_of('\0'), bytes.size()));
      is_truncated_ = bytes.empty();
    }
  }
  return bytes;
}

std::size_t FileLogReader::WantedBytes() const {
  if (!end_ || current_->number < end_->file) {
    return kMostBytes;
  }
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(kMostBytes, end_->offset - offset_));
}

bool FileLogReader::IsPastEnd() const {
  return end_ && current_ &&
         (current_->number > end_->file ||
          (current_->number == end_->file && offset_ >= end_->offset));
}

std::string FileLogReader::AfterNoBytes() {
  struct stat stat = {};
  if (::fstat(current_->fd.get(), &stat) != 0 ||
      static_cast<std::uint64_t>(stat.st_size) >= offset_) {
    return {};
  }
  offset_ = 0;
  is_truncated_ = true;
  return Said("somebody has truncated " +
              directory_.FileName(current_->number) +
              ", and bytes that nobody has read may be gone");
}

// A shim keeps its write offset when somebody truncates its file, so the file
// then begins with a hole. SEEK_DATA skips the hole, because it may be huge.
void FileLogReader::SkipHole() {
  struct stat stat = {};
  if (!is_truncated_ || ::fstat(current_->fd.get(), &stat) != 0) {
    return;
  }
  off_t data =
      ::lseek(current_->fd.get(), static_cast<off_t>(offset_), SEEK_DATA);
  if (data < 0 && errno == ENXIO) {  // no data before the file's end
    data = stat.st_size;
  }
  if (data >= 0) {
    offset_ = std::max(offset_, static_cast<std::uint64_t>(data));
  }
}

Result<std::optional<LogFile>> FileLogReader::OpenNext() {
  if (current_ && directory_.IsReplaced(*current_)) {
    expected_ = current_->number;
    return directory_.OpenFile(expected_);
  }
  MOUNTD_ASSIGN(auto next, directory_.OpenFile(expected_));
  for (int i = 0; i < kMostTries; ++i) {
    if (next) {
      return next;
    }
    MOUNTD_ASSIGN(auto lowest, directory_.LowestFrom(expected_));
    if (!lowest) {
      // A shim that finds no file begins again with number 0.
      MOUNTD_ASSIGN(lowest, directory_.LowestFrom(0));
      expected_ = lowest ? expected_ : 0;
      return next;
    }
    // Looks once more, because readdir(3) may leave out a file that a shim made
    // during the first look. A shim makes files in order, so this look finds
    // the lowest.
    MOUNTD_ASSIGN(lowest, directory_.LowestFrom(expected_));
    if (lowest) {
      MOUNTD_ASSIGN(next, directory_.OpenFile(*lowest));
    }
  }
  return TooSlow();
}

std::string FileLogReader::GoTo(LogFile next) {
  const std::uint64_t last =
      end_ ? std::min(next.number, end_->file + 1) : next.number;
  const std::uint64_t files = last > expected_ ? last - expected_ : 0;
  expected_ = next.number + 1;
  current_ = std::move(next);
  offset_ = 0;
  is_truncated_ = false;
  if (files == 0) {
    return {};
  }
  // Bounds the count, because a directory may have any numbers, and the product
  // must not overflow.
  const std::uint64_t most =
      options_.max_file_bytes == 0
          ? 0
          : std::numeric_limits<std::uint64_t>::max() / options_.max_file_bytes;
  const std::uint64_t bytes = std::min(files, most) * options_.max_file_bytes;
  removed_unread_ += std::min(
      bytes, std::numeric_limits<std::uint64_t>::max() - removed_unread_);
  return Said("the rotation removed " + std::to_string(files) +
              " files with at most " + std::to_string(bytes) +
              " bytes that nobody had read");
}

std::string FileLogReader::Said(std::string_view text) const {
  return (last_byte_ == '\n' ? "[mountd: " : "\n[mountd: ") +
         std::string(text) + "]\n";
}

}  // namespace mountd::driver
