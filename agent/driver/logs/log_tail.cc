// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/logs/log_tail.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>

#include "agent/driver/logs/log_reader.h"

namespace mountd::driver {
namespace {

// Counts line ends backwards from a place in the log.
class LineEnds {
 public:
  explicit LineEnds(std::uint64_t lines) : left_(lines) {}

  // Takes the bytes that stand before those of the last call. Returns how many
  // of these bytes are before the first wanted line; npos if that line begins
  // earlier.
  std::size_t Take(std::string_view bytes) {
    std::size_t end = bytes.size();
    // A line end at the very end belongs to the last line.
    if (!has_begun_ && bytes.ends_with('\n')) {
      --end;
    }
    has_begun_ = has_begun_ || !bytes.empty();
    while (end > 0) {
      const std::size_t line_end = bytes.rfind('\n', end - 1);
      if (line_end == std::string_view::npos) {
        break;
      }
      if (--left_ == 0) {
        return line_end + 1;
      }
      end = line_end;
    }
    return std::string_view::npos;
  }

 private:
  std::uint64_t left_;
  bool has_begun_ = false;
};

Result<std::string_view> ReadAt(const LogFile& file, std::uint64_t offset,
                                std::size_t size, std::string* buffer) {
  buffer->resize(size);
  for (;;) {
    const ssize_t got = ::pread(file.fd.get(), buffer->data(), size,
                                static_cast<off_t>(offset));
    if (got >= 0) {
      // Fewer bytes: somebody has truncated the file.
      return std::string_view(*buffer).substr(0, static_cast<std::size_t>(got));
    }
    if (errno != EINTR) {
      return ErrnoError(errno, "read", "log." + std::to_string(file.number));
    }
  }
}

// Moves `place` back to the first wanted line, or to the file's beginning.
// Returns whether the file has the line's beginning.
Result<bool> FindInFile(LogPlace* place, LineEnds* line_ends,
                        std::string* buffer) {
  while (place->offset > 0) {
    const auto size = static_cast<std::size_t>(
        std::min<std::uint64_t>(place->offset, LogReader::kMostBytes));
    place->offset -= size;
    MOUNTD_ASSIGN(const std::string_view bytes,
                  ReadAt(place->file, place->offset, size, buffer));
    const std::size_t before = line_ends->Take(bytes);
    if (before != std::string_view::npos) {
      place->offset += before;
      return true;
    }
  }
  return false;
}

Result<std::optional<LogFile>> OpenBefore(const LogDirectory& directory,
                                          std::uint64_t number) {
  for (;;) {
    MOUNTD_ASSIGN(const auto before, directory.HighestBelow(number));
    if (!before) {
      return std::optional<LogFile>();
    }
    MOUNTD_ASSIGN(auto file, directory.OpenFile(*before));
    if (file) {
      return file;
    }
    // The rotation has removed the file since the look, so looks for an older
    // file.
    number = *before;
  }
}

}  // namespace

Result<LogPlace> FindTail(const LogDirectory& directory, LogPlace end,
                          std::uint64_t lines) {
  if (lines == 0) {
    return end;
  }
  LineEnds line_ends(lines);
  std::string buffer;
  LogPlace place = std::move(end);
  for (;;) {
    MOUNTD_ASSIGN(const bool found, FindInFile(&place, &line_ends, &buffer));
    if (found) {
      return place;
    }
    MOUNTD_ASSIGN(auto before, OpenBefore(directory, place.file.number));
    if (!before) {
      return place;
    }
    place.offset = before->size;
    place.file = std::move(*before);
  }
}

}  // namespace mountd::driver
