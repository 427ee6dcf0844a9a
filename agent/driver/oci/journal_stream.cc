// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/oci/journal_stream.h"

#include <sys/socket.h>

#include <cerrno>

#include "mountd/base/one_line.h"
#include "mountd/base/unix_socket.h"
#include "mountd/base/write_all.h"

namespace mountd::driver {

Result<UniqueFd> OpenJournal(const std::string& task_id, JournalLevel level) {
  constexpr char kSocket[] = "/run/systemd/journal/stdout";
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int failed =
      socket.valid() ? ConnectUnix(socket.get(), kSocket) : errno;
  if (failed != 0) {
    Error away = ErrnoError(failed, "connect", "the journal");
    away.code = Code::kUnavailable;
    return away;
  }
  // Identifier, unit, level, whether lines begin with a level of their own, and
  // three targets that the journal may forward to.
  const std::string header = OnOneLine(task_id) + "\n\n" +
                             std::to_string(static_cast<int>(level)) +
                             "\n0\n0\n0\n0\n";
  MOUNTD_TRY(WriteAll(socket.get(), header, "the journal"));
  ::shutdown(socket.get(), SHUT_RD);
  return socket;
}

}  // namespace mountd::driver
