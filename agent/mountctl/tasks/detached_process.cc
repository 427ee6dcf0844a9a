// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/tasks/detached_process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "mountd/base/pipe.h"
#include "mountd/base/unique_fd.h"

namespace mountd::agent {
namespace {

// Makes only calls that a child of a program with threads may make
// (signal-safety(7)).
[[noreturn]] void Become(char* const* arguments, int kept, const char* log,
                         int failure) {
  int error = 0;
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const int file =
      ::open(log, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // A signal that the caller ignores would stay ignored (execve(2)).
  for (int number = 1; number < NSIG; ++number) {
    (void)::signal(number, SIG_DFL);
  }
  if (null < 0 || file < 0 || ::dup2(null, 0) < 0 || ::dup2(file, 1) < 0 ||
      ::dup2(file, 2) < 0 || ::chdir("/") < 0 ||
      ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) < 0 ||
      ::fcntl(kept, F_SETFD, 0) < 0) {
    error = errno;
  } else {
    ::execv("/proc/self/exe", arguments);
    error = errno;
  }
  (void)!::write(failure, &error, sizeof error);
  ::_exit(1);
}

// Leaves the work to a second child, which is no leader of its session, so it
// never gets a controlling terminal.
[[noreturn]] void BecomeInSession(char* const* arguments, int kept,
                                  const char* log, int failure) {
  ::setsid();
  const pid_t second = ::fork();
  if (second == 0) {
    Become(arguments, kept, log, failure);
  }
  const int error = errno;
  if (second < 0) {
    (void)!::write(failure, &error, sizeof error);
  }
  ::_exit(0);
}

// Waits for the end of the pipe, which the exec closes. An errno in the pipe
// is the reason why there is no exec.
Result<void> AwaitExec(const UniqueFd& reader) {
  int error = 0;
  ssize_t size = 0;
  while ((size = ::read(reader.get(), &error, sizeof error)) < 0 &&
         errno == EINTR) {
  }
  return size == sizeof error
             ? Result<void>(ErrnoError(error, "start", "a watcher"))
             : Ok();
}

}  // namespace

Result<void> StartDetached(const std::vector<std::string>& arguments, int kept,
                           const std::string& log) {
  std::vector<char*> words;
  words.reserve(arguments.size() + 1);
  for (const std::string& word : arguments) {
    // execv(3) does not change the words.
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  MOUNTD_ASSIGN(Pipe pipe, MakePipe("a watcher"));
  const pid_t child = ::fork();
  if (child < 0) {
    return ForkError(errno, "fork", "a watcher");
  }
  if (child == 0) {
    BecomeInSession(words.data(), kept, log.c_str(), pipe.write.get());
  }
  pipe.write.reset();
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return AwaitExec(pipe.read);
}

}  // namespace mountd::agent
