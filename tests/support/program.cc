// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <utility>

#include "mountd/base/unique_fd.h"

namespace mountd::test {
namespace {

int Spawn(const std::vector<std::string>& command, int out, int err) {
  std::vector<char*> argv;
  std::vector<std::string> words = command;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out, 1);
  ::posix_spawn_file_actions_adddup2(&actions, err, 2);
  int pid = -1;
  const int failed =
      ::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    std::abort();
  }
  return pid;
}

int WaitFor(int pid) {
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid) {
    std::abort();
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::array<UniqueFd, 2> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) < 0) {
    std::abort();
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

bool ReadSome(int fd, std::string& text) {
  char buffer[4096];
  const ssize_t got = ::read(fd, buffer, sizeof(buffer));
  if (got <= 0) {
    return false;
  }
  text.append(buffer, static_cast<std::size_t>(got));
  return true;
}

// Returns the end for reading, and the terminal.
std::array<UniqueFd, 2> MakeTerminal() {
  UniqueFd read(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!read.valid() || ::grantpt(read.get()) < 0 ||
      ::unlockpt(read.get()) < 0) {
    std::abort();
  }
  UniqueFd terminal(
      ::open(::ptsname(read.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  const winsize size{24, 60, 0, 0};
  if (::ioctl(terminal.get(), TIOCSWINSZ, &size) < 0) {
    std::abort();
  }
  return {std::move(read), std::move(terminal)};
}

ProgramOutcome Run(const std::vector<std::string>& command,
                   std::array<UniqueFd, 2> on_err) {
  auto [out, out_write] = MakePipe();
  auto [err, err_write] = std::move(on_err);
  const int pid = Spawn(command, out_write.get(), err_write.get());
  out_write.reset();
  err_write.reset();
  ProgramOutcome outcome;
  std::array<pollfd, 2> fds{{{out.get(), POLLIN, 0}, {err.get(), POLLIN, 0}}};
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    ::poll(fds.data(), fds.size(), -1);
    if (fds[0].revents != 0 && !ReadSome(fds[0].fd, outcome.out)) {
      fds[0].fd = -1;
    }
    if (fds[1].revents != 0 && !ReadSome(fds[1].fd, outcome.err)) {
      fds[1].fd = -1;
    }
  }
  outcome.status = WaitFor(pid);
  return outcome;
}

}  // namespace

ProgramOutcome RunProgram(const std::vector<std::string>& command) {
  return Run(command, MakePipe());
}

ProgramOutcome RunOnTerminal(const std::vector<std::string>& command) {
  return Run(command, MakeTerminal());
}

RunningProgram::RunningProgram(const std::vector<std::string>& command) {
  auto [out, out_write] = MakePipe();
  pid_ = Spawn(command, out_write.get(), 2);
  out_ = out.release();
}

RunningProgram::~RunningProgram() {
  if (pid_ >= 0) {
    Signal(SIGKILL);
    Wait();
  }
  ::close(out_);
}

std::string RunningProgram::ReadLine() {
  std::string line;
  char c = 0;
  while (::read(out_, &c, 1) == 1 && c != '\n') {
    line.push_back(c);
  }
  return line;
}

void RunningProgram::Signal(int number) { ::kill(pid_, number); }

int RunningProgram::Wait() {
  const int status = WaitFor(pid_);
  pid_ = -1;
  return status;
}

}  // namespace mountd::test
