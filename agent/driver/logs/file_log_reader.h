// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agent/driver/logs/directory_watch.h"
#include "agent/driver/logs/log_directory.h"
#include "agent/driver/logs/log_reader.h"

namespace mountd::driver {

// Reads the files of a stream (kFiles), one file to its end and then the next.
// Holds the current file open, so that the rotation cannot take this file from
// the reader. A shim makes the next file after the last byte of the current
// file, so a look that finds the next file reads the current file once more.
class FileLogReader final : public LogReader {
 public:
  // A byte of a log, by its file and its place there.
  struct Place {
    std::uint64_t file = 0;
    std::uint64_t offset = 0;
  };
  struct Options {
    std::uint64_t max_file_bytes = 0;
    std::optional<std::uint64_t> tail_lines{};
    bool follow = false;
  };

  static Result<std::unique_ptr<LogReader>> Open(LogDirectory directory,
                                                 const Options& options);

  Result<std::optional<std::string>> Read(
      std::chrono::milliseconds wait) override;
  void WriterHasEnded() override { writer_has_ended_ = true; }
  std::uint64_t removed_unread() const override { return removed_unread_; }

 private:
  FileLogReader(LogDirectory directory, const Options& options);

  Result<void> FindBegin();
  // Opens the file whose number `choose` returns; nothing if it returns none.
  template <typename Choose>
  Result<std::optional<LogFile>> OpenFirst(const Choose& choose) const;
  Error TooSlow() const;
  // Returns the bytes that are there, "" if there are none yet, or nullopt at
  // the end.
  Result<std::optional<std::string>> Look();
  Result<std::string> ReadCurrent();
  std::size_t WantedBytes() const;
  bool IsPastEnd() const;
  // Returns a sentence if somebody has truncated the current file.
  std::string AfterNoBytes();
  void SkipHole();

  Result<std::optional<LogFile>> OpenNext();
  // Makes the file the current one. Returns a sentence if the rotation has
  // removed files between the two.
  std::string GoTo(LogFile next);
  std::string Said(std::string_view text) const;

  const LogDirectory directory_;
  const Options options_;
  std::optional<DirectoryWatch> watch_;  // only with follow
  std::optional<Place> end_;             // without follow
  std::optional<LogFile> current_;
  std::uint64_t offset_ = 0;    // of the next byte in the current file
  std::uint64_t expected_ = 0;  // the number of the next file
  bool is_truncated_ = false;   // skips the zeros that the writer has left out
  char last_byte_ = '\n';       // that Read returned
  std::uint64_t removed_unread_ = 0;
  std::atomic<bool> writer_has_ended_ = false;
};

// Opens the files of the request's stream.
Result<std::unique_ptr<LogReader>> OpenFileLog(const LogRequest& request);

}  // namespace mountd::driver
