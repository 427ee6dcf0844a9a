// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/logs/journal_log_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "agent/driver/logs/journal_stream.h"

namespace mountd::driver {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr char kJournalSocket[] = "/run/systemd/journal/stdout";
constexpr milliseconds kMostJournalWait = std::chrono::hours(24);
// WriterHasEnded does not wake a waiting Read, so each wait is short.
constexpr milliseconds kJournalLook{100};
// Reads so many bytes of an entry at most. By default systemd-journald cuts
// lines at 48 KiB (journald.conf(5), LineMax=), so such entries are whole.
constexpr std::size_t kMostEntryBytes = LogReader::kMostBytes;

Error JournalError(int negative_errno, const char* call) {
  return ErrnoError(-negative_errno, call, "the journal");
}

// Returns whether the journal has a file that the caller may not read.
bool HasForbiddenFile(const char* directory) {
  using std::filesystem::recursive_directory_iterator;
  std::error_code error;
  recursive_directory_iterator entry(
      directory, std::filesystem::directory_options::skip_permission_denied,
      error);
  while (!error && entry != recursive_directory_iterator()) {
    if (::faccessat(AT_FDCWD, entry->path().c_str(), R_OK, AT_EACCESS) != 0 &&
        errno == EACCES) {
      return true;
    }
    entry.increment(error);
  }
  return false;
}

// Returns the value of a field of the current entry; nothing without one.
Result<std::optional<std::string>> FieldOf(sd_journal* journal,
                                           const std::string& name) {
  const void* data = nullptr;
  std::size_t size = 0;
  const int got = ::sd_journal_get_data(journal, name.c_str(), &data, &size);
  if (got == -ENOENT) {
    return std::optional<std::string>();
  }
  if (got < 0) {
    return JournalError(got, "sd_journal_get_data");
  }
  // "NAME=VALUE"
  std::string_view field(static_cast<const char*>(data), size);
  field.remove_prefix(std::min(field.size(), name.size() + 1));
  return std::optional(std::string(field));
}

}  // namespace

Result<std::unique_ptr<LogReader>> OpenJournalLog(const LogRequest& request) {
  return JournalLogReader::Open(request);
}

Result<std::unique_ptr<LogReader>> JournalLogReader::Open(
    const LogRequest& request) {
  MOUNTD_ASSIGN(const std::string identifier,
                JournalIdentifier(request.task_id));
  sd_journal* journal = nullptr;
  const int opened = ::sd_journal_open(&journal, SD_JOURNAL_LOCAL_ONLY);
  if (opened < 0) {
    return JournalError(opened, "sd_journal_open");
  }
  std::unique_ptr<JournalLogReader> reader(new JournalLogReader());
  reader->journal_.reset(journal);
  reader->follow_ = request.follow;
  MOUNTD_TRY(reader->CheckReadable());
  MOUNTD_TRY(reader->Match(identifier, request.standard_error));
  MOUNTD_ASSIGN(const bool has_entry, reader->GoToLast());
  if (request.tail_lines) {
    MOUNTD_TRY(reader->FindTail(has_entry, *request.tail_lines));
  } else {
    ::sd_journal_seek_head(journal);
  }
  return std::unique_ptr<LogReader>(std::move(reader));
}

// sd_journal_open leaves out what the caller may not read, without an error.
Result<void> JournalLogReader::CheckReadable() const {
  std::uint64_t bytes = 0;
  if (::sd_journal_get_usage(journal_.get(), &bytes) >= 0 && bytes > 0) {
    return Ok();
  }
  if (::access(&kJournalSocket[0], F_OK) != 0) {
    return MakeError(Code::kFailedPrecondition, "OpenLog", "the journal",
                     "this machine has no journal; choose another log mode");
  }
  // A journal that has just begun has no file yet.
  if (HasForbiddenFile("/run/log/journal") ||
      HasForbiddenFile("/var/log/journal")) {
    return MakeError(Code::kPermissionDenied, "OpenLog", "the journal",
                     "no file of the journal is readable; add the user to the "
                     "group systemd-journal");
  }
  return Ok();
}

Result<void> JournalLogReader::Match(const std::string& identifier,
                                     bool standard_error) {
  // Only systemd-journald sets _TRANSPORT. So the reader never takes an entry
  // that came by another way, such as syslog(3), for the task's.
  for (const std::string& match :
       {std::string("_TRANSPORT=stdout"), "SYSLOG_IDENTIFIER=" + identifier,
        "PRIORITY=" + std::to_string(JournalPriority(standard_error))}) {
    const int added =
        ::sd_journal_add_match(journal_.get(), match.data(), match.size());
    if (added < 0) {
      return JournalError(added, "sd_journal_add_match");
    }
  }
  ::sd_journal_set_data_threshold(journal_.get(), kMostEntryBytes);
  return Ok();
}

Result<bool> JournalLogReader::GoToLast() {
  ::sd_journal_seek_tail(journal_.get());
  MOUNTD_ASSIGN(const bool has_entry,
                Step(::sd_journal_previous(journal_.get())));
  is_at_end_ = !has_entry && !follow_;
  if (has_entry && !follow_) {
    char* cursor = nullptr;
    const int got = ::sd_journal_get_cursor(journal_.get(), &cursor);
    if (got < 0) {
      return JournalError(got, "sd_journal_get_cursor");
    }
    end_ = cursor;
    std::free(cursor);
  }
  return has_entry;
}

// Leaves the journal at the entry before the first wanted one.
Result<void> JournalLogReader::FindTail(bool has_entry, std::uint64_t lines) {
  if (has_entry && lines == 0) {
    is_at_end_ = !follow_;
    return Ok();
  }
  while (has_entry) {
    MOUNTD_ASSIGN(has_entry, Step(::sd_journal_previous(journal_.get())));
    if (!has_entry) {
      break;
    }
    MOUNTD_ASSIGN(const Entry entry, ReadEntry());
    if (entry.ends_line && --lines == 0) {
      return Ok();
    }
  }
  ::sd_journal_seek_head(journal_.get());
  return Ok();
}

Result<bool> JournalLogReader::Step(int moved) const {
  if (moved < 0) {
    return JournalError(moved, "read");
  }
  return moved > 0;
}

Result<JournalLogReader::Entry> JournalLogReader::ReadEntry() const {
  Entry entry;
  MOUNTD_ASSIGN(auto text, FieldOf(journal_.get(), "MESSAGE"));
  MOUNTD_ASSIGN(const auto line_break, FieldOf(journal_.get(), "_LINE_BREAK"));
  entry.text = std::move(text).value_or("");
  if (entry.text.size() >= kMostEntryBytes) {
    entry.text += "\n[mountd: the journal may have more bytes of this line]";
  }
  if (!line_break) {
    entry.text += '\n';
  } else if (*line_break == "nul") {
    entry.text += '\0';
  } else {
    // "line-max": the entry ends, and the line does not. "eof", "pid-change":
    // it has no line end.
    entry.ends_line = false;
  }
  return entry;
}

Result<std::optional<std::string>> JournalLogReader::Read(milliseconds wait) {
  const auto deadline =
      steady_clock::now() + std::clamp(wait, milliseconds(0), kMostJournalWait);
  for (;;) {
    MOUNTD_ASSIGN(auto bytes, Look());
    if (!bytes || !bytes->empty()) {
      return bytes;
    }
    const auto left = std::chrono::ceil<std::chrono::microseconds>(
        deadline - steady_clock::now());
    if (left.count() <= 0) {
      return bytes;
    }
    const auto most = std::min<std::chrono::microseconds>(left, kJournalLook);
    const int waited = ::sd_journal_wait(
        journal_.get(), static_cast<std::uint64_t>(most.count()));
    if (waited < 0) {
      return JournalError(waited, "sd_journal_wait");
    }
  }
}

Result<std::optional<std::string>> JournalLogReader::Look() {
  const bool is_last_look = !follow_ || writer_has_ended_;
  std::string bytes;
  while (!is_at_end_ && bytes.size() < kMostEntryBytes) {
    MOUNTD_ASSIGN(const bool has_entry,
                  Step(::sd_journal_next(journal_.get())));
    if (!has_entry) {
      break;
    }
    MOUNTD_ASSIGN(const Entry entry, ReadEntry());
    bytes += entry.text;
    is_at_end_ = !end_.empty() &&
                 ::sd_journal_test_cursor(journal_.get(), end_.c_str()) > 0;
  }
  if (bytes.empty() && (is_at_end_ || is_last_look)) {
    return std::optional<std::string>();
  }
  return std::optional(std::move(bytes));
}

}  // namespace mountd::driver
