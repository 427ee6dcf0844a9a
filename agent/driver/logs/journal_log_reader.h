// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <systemd/sd-journal.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "agent/driver/logs/log_reader.h"

namespace mountd::driver {

// Reads one stream of one start of a task from the journal (kJournal), on
// demand. The journal leaves out empty lines and the spaces at a line's end. An
// ordinary user reads the entries of his own uid. A member of the group
// systemd-journal also reads the entries of a task with another uid.
class JournalLogReader final : public LogReader {
 public:
  static Result<std::unique_ptr<LogReader>> Open(const LogRequest& request);

  Result<std::optional<std::string>> Read(
      std::chrono::milliseconds wait) override;
  void WriterHasEnded() override { writer_has_ended_ = true; }

 private:
  struct Close {
    void operator()(sd_journal* journal) const { ::sd_journal_close(journal); }
  };
  struct Entry {
    std::string text;  // with its line end, if it has one
    bool ends_line = true;
  };

  JournalLogReader() = default;
  Result<void> Match(const std::string& identifier, bool standard_error);
  Result<void> CheckReadable() const;
  // Goes to the last entry. Returns whether there is one.
  Result<bool> GoToLast();
  Result<void> FindTail(bool has_entry, std::uint64_t lines);
  // Takes the answer of a call that moves in the journal. Returns whether the
  // journal now stands at an entry.
  Result<bool> Step(int moved) const;
  Result<Entry> ReadEntry() const;
  Result<std::optional<std::string>> Look();

  std::unique_ptr<sd_journal, Close> journal_;
  bool follow_ = false;
  std::string end_;  // the cursor of the last entry; without follow
  bool is_at_end_ = false;
  std::atomic<bool> writer_has_ended_ = false;
};

Result<std::unique_ptr<LogReader>> OpenJournalLog(const LogRequest& request);

}  // namespace mountd::driver
