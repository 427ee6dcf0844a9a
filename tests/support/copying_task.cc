// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/copying_task.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <functional>
#include <thread>

namespace mountd::testing {
namespace {

using Kind = CopyingTask::Kind;

bool Copy(const std::string& source) {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_PRIVATE | MS_REC, nullptr) == 0 &&
         ::mount(source.c_str(), CopyingTask::kPlace, nullptr, MS_BIND,
                 nullptr) == 0 &&
         ::umount2("/run/mountd/base", MNT_DETACH) == 0;
}

int Make(int directory, const std::string& name) {
  const int fd = ::openat(directory, name.c_str(), O_CREAT | O_WRONLY, 0600);
  if (fd < 0) {
    return errno;
  }
  ::close(fd);
  return 0;
}

// Makes the file in a child that enters the mount namespace first.
int MakeInside(int mounts, const std::string& name) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::_exit(
        ::setns(mounts, CLONE_NEWNS) != 0
            ? errno
            : Make(AT_FDCWD, std::string(CopyingTask::kPlace) + "/" + name));
  }
  int status = 0;
  return ::waitpid(pid, &status, 0) == pid && WIFEXITED(status)
             ? WEXITSTATUS(status)
             : ECHILD;
}

// Reads names from `socket`, and answers each with the errno of making that
// file.
void Serve(int socket, bool ok, const std::function<int(std::string)>& make) {
  int outcome = ok ? 0 : -1;
  (void)!::write(socket, &outcome, sizeof(outcome));
  std::array<char, 256> name{};
  for (ssize_t size = 0;
       (size = ::read(socket, name.data(), name.size())) > 0;) {
    outcome = make(std::string(name.data(), static_cast<std::size_t>(size)));
    (void)!::write(socket, &outcome, sizeof(outcome));
  }
  ::_exit(0);
}

void ServeAtPlace(int socket, bool ok) {
  Serve(socket, ok, [](const std::string& name) {
    return Make(AT_FDCWD, std::string(CopyingTask::kPlace) + "/" + name);
  });
}

void ServeFile(int socket, const std::string& source) {
  const bool copied = Copy(source);
  const int directory =
      ::open(CopyingTask::kPlace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool alone = copied && directory >= 0 &&
                     ::umount2(CopyingTask::kPlace, MNT_DETACH) == 0;
  Serve(socket, alone,
        [&](const std::string& name) { return Make(directory, name); });
}

int OpenMounts() { return ::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC); }

void ServeChrooted(int socket, const std::string& source) {
  bool ok = Copy(source);
  const int mounts = OpenMounts();
  ok = ok && mounts >= 0 && ::chroot("/proc/self/task") == 0 &&
       ::chdir("/") == 0;
  Serve(socket, ok,
        [&](const std::string& name) { return MakeInside(mounts, name); });
}

void ServeNamespace(int socket, const std::string& source) {
  const int own = OpenMounts();
  bool ok = own >= 0 && Copy(source);
  const int mounts = OpenMounts();
  ok = ok && mounts >= 0 && ::setns(own, CLONE_NEWNS) == 0;
  ::close(own);
  Serve(socket, ok,
        [&](const std::string& name) { return MakeInside(mounts, name); });
}

// The first child makes the mount namespace and ends. This process has entered
// it before, and serves there.
void ServeHandedOn(int socket, const std::string& source) {
  int ready[2] = {-1, -1};
  bool ok = ::pipe(ready) == 0;
  const pid_t first = ::fork();
  if (first == 0) {
    const char done = Copy(source) ? 1 : 0;
    (void)!::write(ready[1], &done, 1);
    for (;;) {
      ::pause();
    }
  }
  char done = 0;
  ok = ok && ::read(ready[0], &done, 1) == 1 && done == 1;
  const std::string path = "/proc/" + std::to_string(first) + "/ns/mnt";
  const int mounts = ::open(path.c_str(), O_RDONLY);
  ok = ok && ::setns(mounts, CLONE_NEWNS) == 0;
  ::close(mounts);
  ::kill(first, SIGKILL);
  ::waitpid(first, nullptr, 0);
  ServeAtPlace(socket, ok);
}

void Become(int socket, const std::string& source, Kind kind) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  switch (kind) {
    case Kind::kPrivate:
      ServeAtPlace(socket, Copy(source));
      break;
    case Kind::kShared:
      ServeAtPlace(
          socket, Copy(source) && ::mount(nullptr, CopyingTask::kPlace, nullptr,
                                          MS_SHARED, nullptr) == 0);
      break;
    case Kind::kUserNamespace:
      ServeAtPlace(socket,
                   Copy(source) && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0);
      break;
    case Kind::kOpenFile:
      ServeFile(socket, source);
      break;
    case Kind::kHandedOn:
      ServeHandedOn(socket, source);
      break;
    case Kind::kChrooted:
      ServeChrooted(socket, source);
      break;
    case Kind::kNamespace:
      ServeNamespace(socket, source);
      break;
    case Kind::kThread:
    case Kind::kThreadAlone:
      std::thread([&] { ServeAtPlace(socket, Copy(source)); }).detach();
      if (kind == Kind::kThreadAlone) {
        ::syscall(SYS_exit, 0);
      }
      for (;;) {
        ::pause();
      }
  }
}

}  // namespace

CopyingTask::CopyingTask(const std::string& source, Kind kind) {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return;
  }
  ::mkdir(kPlace, 0755);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(ends[0]);
    // A copy, because the kind kThreadAlone ends the first thread and with it
    // that thread's stack.
    static std::string kept;
    kept = source;
    Become(ends[1], kept, kind);
    ::_exit(1);
  }
  ::close(ends[1]);
  socket_ = ends[0];
  pid_ = pid;
  int made = -1;
  if (::read(socket_, &made, sizeof(made)) != sizeof(made) || made != 0) {
    End();
  }
}

int CopyingTask::Write(const std::string& name) const {
  int outcome = EPIPE;
  if (::send(socket_, name.data(), name.size(), MSG_NOSIGNAL) < 0 ||
      ::read(socket_, &outcome, sizeof(outcome)) != sizeof(outcome)) {
    return EPIPE;
  }
  return outcome;
}

void CopyingTask::End() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(socket_);
  pid_ = -1;
  socket_ = -1;
}

bool NaiveReleaseLosesData(const std::string& volume, CopyingTask::Kind kind) {
  constexpr char kMounted[] = "/run/naive";
  ::mkdir(kMounted, 0700);
  if (::mount(volume.c_str(), kMounted, nullptr, MS_BIND, nullptr) != 0) {
    return false;
  }
  const CopyingTask task(kMounted, kind);
  const bool told = task.pid() > 0 && ::umount2(kMounted, 0) == 0;
  // By now another node may have the volume.
  return told && task.Write("late") == 0 &&
         ::unlink((volume + "/late").c_str()) == 0;
}

}  // namespace mountd::testing
