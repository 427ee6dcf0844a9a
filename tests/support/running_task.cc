// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/running_task.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

namespace mountd::testing {
namespace {

bool Write(const char* path, const char* text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  const bool done = fd >= 0 && ::write(fd, text, std::strlen(text)) ==
                                   static_cast<ssize_t>(std::strlen(text));
  ::close(fd);
  return done;
}

bool BecomeTask(const std::string& inbox, bool user_namespace) {
  if (user_namespace && (::unshare(CLONE_NEWUSER) != 0 ||
                         !Write("/proc/self/setgroups", "deny") ||
                         !Write("/proc/self/uid_map", "0 0 1") ||
                         !Write("/proc/self/gid_map", "0 0 1"))) {
    return false;
  }
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_SLAVE | MS_REC, nullptr) == 0 &&
         ::mount(inbox.c_str(), RunningTask::kInbox, nullptr, MS_BIND | MS_REC,
                 nullptr) == 0 &&
         ::mount(nullptr, RunningTask::kInbox, nullptr, MS_SLAVE | MS_REC,
                 nullptr) == 0;
}

bool Enter(pid_t pid, const char* name) {
  const std::string path = "/proc/" + std::to_string(pid) + "/ns/" + name;
  struct stat theirs = {};
  struct stat own = {};
  const std::string self = std::string("/proc/self/ns/") + name;
  if (::stat(path.c_str(), &theirs) != 0 || ::stat(self.c_str(), &own) != 0) {
    return false;
  }
  if (theirs.st_ino == own.st_ino) {
    return true;
  }
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool done = fd >= 0 && ::setns(fd, 0) == 0;
  ::close(fd);
  return done;
}

}  // namespace

RunningTask::RunningTask(const std::string& inbox, bool user_namespace) {
  int ready[2] = {-1, -1};
  if (::pipe2(ready, O_CLOEXEC) != 0) {
    return;
  }
  ::mkdir(kInbox, 0755);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (BecomeTask(inbox, user_namespace)) {
      (void)!::write(ready[1], "", 1);
      ::close(ready[1]);
      for (;;) {
        ::pause();
      }
    }
    ::_exit(1);
  }
  ::close(ready[1]);
  char byte = 0;
  if (::read(ready[0], &byte, 1) == 1) {
    pid_ = pid;
  } else {
    ::waitpid(pid, nullptr, 0);
  }
  ::close(ready[0]);
}

RunningTask::~RunningTask() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

int RunningTask::Do(const std::function<int()>& body) const {
  if (pid_ <= 0) {
    return 255;
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(Enter(pid_, "user") && Enter(pid_, "mnt") ? body() : 255);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

bool RunningTask::Sees(const std::string& path) const {
  return Do([&] {
           struct stat st = {};
           return ::lstat((std::string(kInbox) + "/" + path).c_str(), &st) == 0
                      ? 1
                      : 0;
         }) == 1;
}

}  // namespace mountd::testing
