// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>

#include "agent/driver/exec_stream.h"
#include "mountd/base/result.h"

namespace mountd::agent {

// Holds the caller's terminal in raw mode for an exec. Restores the terminal in
// the destructor, and before a signal ends the process, except SIGKILL. Leaves
// alone signals that the program handles itself. A process has one such object
// at a time, because the object owns the handlers of these signals, of SIGWINCH
// and of SIGTSTP.
class ExecTerminal {
 public:
  // With kSizes the terminal stays as it is, for an exec without stdin: the
  // keys of signals end mountctl then.
  enum class Mode { kRaw, kSizes };

  // InvalidArgument if `fd` is no terminal. The caller keeps the fd open.
  static Result<std::unique_ptr<ExecTerminal>> Begin(int fd,
                                                     Mode mode = Mode::kRaw);

  ExecTerminal() = default;
  ExecTerminal(const ExecTerminal&) = delete;
  ExecTerminal& operator=(const ExecTerminal&) = delete;
  virtual ~ExecTerminal() = default;

  // The size now, and then each change.
  virtual driver::Stream<driver::TerminalSize>& sizes() = 0;
};

}  // namespace mountd::agent
