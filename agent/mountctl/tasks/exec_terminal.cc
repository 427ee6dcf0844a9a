// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/tasks/exec_terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mountd/base/unique_fd.h"

namespace mountd::agent {
namespace {

using driver::TerminalSize;

// Signals whose default action ends a process, and that occur in practice.
constexpr std::array<int, 15> kEnding{
    SIGTERM, SIGINT,  SIGHUP, SIGQUIT, SIGPIPE, SIGABRT, SIGALRM, SIGUSR1,
    SIGUSR2, SIGSEGV, SIGBUS, SIGFPE,  SIGILL,  SIGXCPU, SIGXFSZ};

// The state of the one ExecTerminal, for signal handlers. ExecTerminal writes
// it before it installs the handlers.
struct RawTerminal {
  int fd = -1;
  termios saved{};
  int wake = -1;  // the writing end of the pipe of sizes
};
RawTerminal g_raw;
std::atomic<bool> g_is_raw{false};

// Safe in a handler of a signal (signal-safety(7)).
void RestoreTerminal() {
  sigset_t output;
  sigset_t before;
  ::sigemptyset(&output);
  // Without this block, a process in the background would stop here
  // (tcsetattr(3)).
  ::sigaddset(&output, SIGTTOU);
  ::pthread_sigmask(SIG_BLOCK, &output, &before);
  if (g_is_raw) {
    // Ignores an error, because a terminal that has hung up has no mode any
    // more. Two threads may restore the terminal at once. g_is_raw stays true
    // until the terminal is restored, because neither handler may end the
    // process before.
    (void)::tcsetattr(g_raw.fd, TCSANOW, &g_raw.saved);
    g_is_raw = false;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void EndBySignal(int number) {
  RestoreTerminal();
  // SA_RESETHAND has put the default action back, so this signal ends the
  // process.
  ::kill(::getpid(), number);
}

void TellSize(int /*number*/) {
  const int error = errno;
  // A full pipe has a byte, so the reader looks at the size anyway.
  (void)!::write(g_raw.wake, "w", 1);
  errno = error;
}

class SizeStream : public driver::Stream<TerminalSize> {
 public:
  SizeStream(int terminal, UniqueFd reader, UniqueFd writer)
      : terminal_(terminal),
        reader_(std::move(reader)),
        writer_(std::move(writer)) {}

  int writer() const { return writer_.get(); }

  Result<std::optional<TerminalSize>> Next() override {
    if (std::exchange(told_first_, true)) {
      std::array<char, 64> bytes{};
      while (::read(reader_.get(), bytes.data(), bytes.size()) < 0) {
        if (errno != EINTR) {
          return ErrnoError(errno, "read", "the terminal's sizes");
        }
      }
    }
    winsize size{};
    if (cancelled_ || ::ioctl(terminal_, TIOCGWINSZ, &size) < 0) {
      // Writes the byte back, so that the next call returns nothing, too.
      (void)!::write(writer_.get(), "c", 1);
      cancelled_ = true;
      return std::optional<TerminalSize>();
    }
    return std::optional(TerminalSize{size.ws_row, size.ws_col});
  }

  void Cancel() override {
    cancelled_ = true;
    (void)!::write(writer_.get(), "c", 1);
  }

 private:
  const int terminal_;
  const UniqueFd reader_;
  const UniqueFd writer_;  // does not block
  bool told_first_ = false;
  std::atomic<bool> cancelled_{false};
};

class RawMode : public ExecTerminal {
 public:
  RawMode(int terminal, UniqueFd reader, UniqueFd writer)
      : sizes_(terminal, std::move(reader), std::move(writer)) {}

  ~RawMode() override {
    RestoreTerminal();
    for (const Before& before : before_) {
      ::sigaction(before.number, &before.action, nullptr);
    }
  }

  // Installs the handlers before raw mode, so that no signal leaves the
  // terminal in raw mode.
  Result<void> Begin(int terminal, Mode mode) {
    g_raw = {terminal, {}, sizes_.writer()};
    Handle(SIGWINCH, &TellSize, SA_RESTART);
    if (mode == Mode::kSizes) {
      return Ok();
    }
    if (::tcgetattr(terminal, &g_raw.saved) < 0) {
      return ErrnoError(errno, "tcgetattr", "stdin");
    }
    for (const int number : kEnding) {
      Handle(number, &EndBySignal, static_cast<int>(SA_RESETHAND));
      // A signal that is ignored, as under nohup(1), stays so. A signal that
      // the program handles keeps its handler, because the program then
      // destroys this object.
      if (before_.back().action.sa_handler != SIG_DFL) {
        ::sigaction(number, &before_.back().action, nullptr);
      }
    }
    Handle(SIGTSTP, SIG_IGN, 0);
    termios raw = g_raw.saved;
    ::cfmakeraw(&raw);
    g_is_raw = true;
    if (::tcsetattr(terminal, TCSADRAIN, &raw) < 0) {
      return ErrnoError(errno, "tcsetattr", "stdin");
    }
    return Ok();
  }

  driver::Stream<TerminalSize>& sizes() override { return sizes_; }

 private:
  struct Before {
    int number = SIGWINCH;
    struct sigaction action {};
  };

  void Handle(int number, void (*handler)(int), int flags) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    before_.push_back({number, {}});
    ::sigaction(number, &action, &before_.back().action);
  }

  SizeStream sizes_;
  std::vector<Before> before_;
};

}  // namespace

Result<std::unique_ptr<ExecTerminal>> ExecTerminal::Begin(int fd, Mode how) {
  if (::isatty(fd) == 0) {
    return MakeError(Code::kInvalidArgument, "exec", "stdin",
                     "is no terminal; leave out -t");
  }
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) < 0 ||
      ::fcntl(pipe[1], F_SETFL, O_NONBLOCK) < 0) {
    return ErrnoError(errno, "pipe", "the terminal's sizes");
  }
  auto mode =
      std::make_unique<RawMode>(fd, UniqueFd(pipe[0]), UniqueFd(pipe[1]));
  MOUNTD_TRY(mode->Begin(fd, how));
  return std::unique_ptr<ExecTerminal>(std::move(mode));
}

}  // namespace mountd::agent
