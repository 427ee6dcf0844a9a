// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/agent/driver/as_user.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>

#include "tests/support/temp_directory.h"

namespace mountd::testing {
namespace {

bool Cover(const std::string& with, const std::string& text,
           const char* target) {
  std::ofstream(with) << text << std::flush;
  return ::mount(with.c_str(), target, nullptr, MS_BIND, nullptr) == 0;
}

std::string BecomeUser(const AsUserSetup& setup, const std::string& files) {
  // The files have to be readable for the user, whatever the umask is.
  ::umask(022);
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("proc", "/proc", "proc", 0, nullptr) != 0 ||
      !Cover(files + "/subuid", setup.subuid, "/etc/subuid") ||
      !Cover(files + "/subgid", setup.subgid, "/etc/subgid")) {
    return std::string("preparing: ") + std::strerror(errno);
  }
  setup.as_root();
  if (::syscall(SYS_setgroups, 0, nullptr) != 0 ||
      ::syscall(SYS_setresgid, kDriverUser, kDriverUser, kDriverUser) != 0 ||
      ::syscall(SYS_setresuid, kDriverUser, kDriverUser, kDriverUser) != 0 ||
      ::prctl(PR_SET_DUMPABLE, 1) != 0) {
    return std::string("becoming the user: ") + std::strerror(errno);
  }
  return "";
}

// Runs as the first process of the pid namespace, so all others end with it.
[[noreturn]] void RunInChild(const std::function<std::string()>& body,
                             const AsUserSetup& setup, const std::string& files,
                             int out) {
  std::string text = BecomeUser(setup, files);
  if (text.empty()) {
    text = body();
  }
  const bool written = ::write(out, text.data(), text.size()) ==
                       static_cast<ssize_t>(text.size());
  ::_exit(written ? 0 : 1);
}

}  // namespace

std::string RunAsUser(const std::function<std::string()>& body,
                      const AsUserSetup& setup) {
  const TempDirectory directory;
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return "pipe2";
  }
  const int before = ::open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
  if (::unshare(CLONE_NEWPID) != 0) {
    return "unshare(CLONE_NEWPID)";
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    RunInChild(body, setup, directory.File(""), ends[1]);
  }
  ::setns(before, CLONE_NEWPID);
  ::close(before);
  ::close(ends[1]);
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t got = 0;
       (got = ::read(ends[0], part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? text : text + "\nthe child failed";
}

std::string WhyNotAsUser() {
  if (::geteuid() != 0) {
    return "needs root";
  }
  for (const char* path : {"/usr/bin/newuidmap", "/usr/bin/newgidmap",
                           "/etc/subuid", "/etc/subgid"}) {
    if (::access(path, F_OK) != 0) {
      return std::string(path) + " is missing (package uidmap)";
    }
  }
  return "";
}

}  // namespace mountd::testing
