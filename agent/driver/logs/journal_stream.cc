// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/logs/journal_stream.h"

#include <syslog.h>
#include <systemd/sd-journal.h>

#include <algorithm>
#include <cerrno>

namespace mountd::driver {
namespace {

constexpr char kIdentifierPrefix[] = "mountd-task:";
// systemd-journald closes a stream whose first line is longer than 1023 bytes.
constexpr std::size_t kMostIdBytes = 1000;

// systemd-journald removes spaces at both ends of the identifier.
bool IsInvisible(char byte) {
  const auto code = static_cast<unsigned char>(byte);
  return code <= ' ' || code == 0x7f;
}

}  // namespace

Result<std::string> JournalIdentifier(const std::string& task_id) {
  if (task_id.empty() || task_id.size() > kMostIdBytes ||
      std::any_of(task_id.begin(), task_id.end(), IsInvisible)) {
    return MakeError(Code::kInvalidArgument, "OpenJournalStream", "task id",
                     "an id for the journal has 1 to " +
                         std::to_string(kMostIdBytes) +
                         " bytes and only visible characters");
  }
  return kIdentifierPrefix + task_id;
}

int JournalPriority(bool standard_error) {
  return standard_error ? LOG_ERR : LOG_INFO;
}

Result<UniqueFd> OpenJournalStream(const std::string& task_id,
                                   bool standard_error) {
  MOUNTD_ASSIGN(const std::string identifier, JournalIdentifier(task_id));
  // Level prefixes are off (0), because "<N>" before a line is the task's own
  // text.
  const int fd = ::sd_journal_stream_fd(identifier.c_str(),
                                        JournalPriority(standard_error), 0);
  if (fd == -ENOENT) {
    return MakeError(Code::kFailedPrecondition, "OpenJournalStream", task_id,
                     "this machine has no journal; choose another log mode");
  }
  if (fd < 0) {
    return ErrnoError(-fd, "sd_journal_stream_fd", task_id);
  }
  return UniqueFd(fd);
}

}  // namespace mountd::driver
