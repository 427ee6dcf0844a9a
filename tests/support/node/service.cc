// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/node/service.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace mountd::launcher {
namespace {

constexpr int kListenFd = 3;  // SD_LISTEN_FDS_START

// The variables that a service inherits: the bus's address, and the sanitizers'
// options.
constexpr std::array kPassed = {"DBUS_SYSTEM_BUS_ADDRESS", "ASAN_OPTIONS",
                                "LSAN_OPTIONS", "UBSAN_OPTIONS",
                                "TSAN_OPTIONS"};

// Ends the child, which has no caller to return to.
[[noreturn]] void Fail(const char* step) {
  std::fprintf(stderr, "mountd-launcher: %s: %s\n", step,
               strerrordesc_np(errno));
  _exit(126);
}

void Check(int result, const char* step) {
  if (result < 0) {
    Fail(step);
  }
}

void DropBoundingSet(const std::vector<cap_value_t>& keep) {
  for (cap_value_t cap = 0; cap <= CAP_LAST_CAP; ++cap) {
    if (std::find(keep.begin(), keep.end(), cap) == keep.end() &&
        cap_get_bound(cap) == 1) {
      Check(cap_drop_bound(cap), "cap_drop_bound");
    }
  }
}

void SetCapabilities(const std::vector<cap_value_t>& caps) {
  cap_t set = cap_init();
  if (set == nullptr) {
    Fail("cap_init");
  }
  if (!caps.empty()) {
    const int count = static_cast<int>(caps.size());
    Check(cap_set_flag(set, CAP_PERMITTED, count, caps.data(), CAP_SET),
          "cap_set_flag");
    Check(cap_set_flag(set, CAP_EFFECTIVE, count, caps.data(), CAP_SET),
          "cap_set_flag");
  }
  Check(cap_set_proc(set), "cap_set_proc");
  cap_free(set);
}

// Drops the bounding set first, while CAP_SETPCAP is there, and the other
// capabilities last, when the user is the right one.
void DropPrivileges(const Service& service) {
  DropBoundingSet(service.capabilities);
  Check(setgroups(0, nullptr), "setgroups");
  const Account& account = service.account;
  Check(setresgid(account.gid, account.gid, account.gid), "setresgid");
  Check(setresuid(account.uid, account.uid, account.uid), "setresuid");
  SetCapabilities(service.capabilities);
  Check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
}

std::vector<std::string> Environment(const Service& service) {
  std::vector<std::string> environment = {
      "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
      "LISTEN_FDS=1",
      "LISTEN_PID=" + std::to_string(getpid()),
      "LISTEN_FDNAMES=" + service.fd_name,
  };
  for (const char* name : kPassed) {
    if (const char* value = std::getenv(name); value != nullptr) {
      environment.push_back(std::string(name) + "=" + value);
    }
  }
  return environment;
}

[[noreturn]] void RunChild(const Service& service, const std::string& directory,
                           int socket, int output) {
  sigset_t none;
  sigemptyset(&none);
  Check(sigprocmask(SIG_SETMASK, &none, nullptr), "sigprocmask");
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  Check(null, "/dev/null");
  Check(dup2(output, STDOUT_FILENO), "dup2");
  Check(dup2(output, STDERR_FILENO), "dup2");
  Check(dup2(null, STDIN_FILENO), "dup2");
  if (socket == kListenFd) {
    Check(fcntl(socket, F_SETFD, 0), "fcntl");
  } else {
    Check(dup2(socket, kListenFd), "dup2");
  }
  Check(chdir("/"), "chdir");
  Check(setsid(), "setsid");
  umask(022);
  DropPrivileges(service);

  const std::string program = directory + "/" + service.name;
  std::vector<std::string> environment = Environment(service);
  std::vector<char*> pointers;
  for (std::string& entry : environment) {
    pointers.push_back(entry.data());
  }
  pointers.push_back(nullptr);
  std::array<char*, 2> arguments = {const_cast<char*>(program.c_str()),
                                    nullptr};
  execve(program.c_str(), arguments.data(), pointers.data());
  Fail(program.c_str());
}

}  // namespace

Result<Account> FindAccount(const std::string& name) {
  const passwd* entry = getpwnam(name.c_str());
  if (entry == nullptr) {
    return MakeError(Code::kNotFound, "find user", name);
  }
  return Account{entry->pw_uid, entry->pw_gid};
}

Result<UniqueFd> Listen(const Service& service) {
  const std::string& path = service.socket_path;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return MakeError(Code::kInvalidArgument, "listen", path, "too long");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(
      socket(AF_UNIX, service.socket_type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) {
    return ErrnoError(errno, "socket", path);
  }
  unlink(path.c_str());
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
           sizeof(address)) < 0) {
    return ErrnoError(errno, "bind", path);
  }
  // Nobody can connect before listen(), so owner and mode may be set after
  // bind().
  if (chown(path.c_str(), service.socket_owner.uid, service.socket_owner.gid) <
          0 ||
      chmod(path.c_str(), service.socket_mode) < 0 ||
      listen(fd.get(), SOMAXCONN) < 0) {
    return ErrnoError(errno, "listen", path);
  }
  return fd;
}

Result<pid_t> Start(const Service& service, const std::string& directory,
                    const UniqueFd& socket, const UniqueFd& output) {
  const int sink = output.valid() ? output.get() : STDERR_FILENO;
  const pid_t pid = fork();
  if (pid < 0) {
    return ErrnoError(errno, "fork", service.name);
  }
  if (pid == 0) {
    RunChild(service, directory, socket.get(), sink);
  }
  return pid;
}

}  // namespace mountd::launcher
