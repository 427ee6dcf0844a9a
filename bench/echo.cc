// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/echo.h"

#include <fcntl.h>
#include <pty.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include "bench/pipe.h"
#include "mountd/base/unique_fd.h"

namespace mountd::bench {
namespace {

constexpr std::chrono::milliseconds kPause{2};

// Types `rounds` bytes, each after the echo of the one before and a pause, as
// a person does.
Result<void> Type(int to, int from, int rounds, Samples& into) {
  for (int i = 0; i < rounds; ++i) {
    std::this_thread::sleep_for(kPause);
    MOUNTD_TRY(Time(into, [&]() -> Result<void> {
      char byte = 'x';
      if (::write(to, &byte, 1) != 1 || ::read(from, &byte, 1) != 1) {
        return ErrnoError(errno, "type", "a byte");
      }
      return Ok();
    }));
  }
  return Ok();
}

}  // namespace

Result<void> EchoInTask(driver::TaskDriver& driver, const std::string& task,
                        int rounds, Samples& into) {
  MOUNTD_ASSIGN(Pipe keys, MakePipe());
  MOUNTD_ASSIGN(Pipe screen, MakePipe());
  driver::ExecOptions options;
  options.command = {"/bin/sleep", "1000"};
  options.terminal = true;
  options.stdin_fd = keys.out.get();
  options.stdout_fd = screen.in.get();
  std::thread command([&] {
    // Control-C ends the command, so its result is of no interest.
    IgnoreBecauseBestEffort(ExecTaskStreaming(driver, task, options));
  });
  // The first key waits for the start of the command.
  Samples first;
  Result<void> typed = Type(keys.in.get(), screen.out.get(), 1, first);
  if (typed) {
    typed = Type(keys.in.get(), screen.out.get(), rounds, into);
  }
  constexpr char kInterrupt = 3;
  const bool ended = ::write(keys.in.get(), &kInterrupt, 1) == 1;
  keys.in.reset();
  command.join();
  return ended ? typed : Result<void>(ErrnoError(errno, "write", "Control-C"));
}

Result<void> EchoAtLocalTerminal(int rounds, Samples& into) {
  int first = -1;
  int second = -1;
  if (::openpty(&first, &second, nullptr, nullptr, nullptr) != 0) {
    return ErrnoError(errno, "openpty", "");
  }
  const UniqueFd terminal(first);
  const UniqueFd other(second);
  return Type(first, first, rounds, into);
}

}  // namespace mountd::bench
