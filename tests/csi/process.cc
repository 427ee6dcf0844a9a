// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/csi/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <utility>

#include "mountd/base/unix_socket.h"

namespace mountd::testing {
namespace {

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(),
              std::min(path.size(), sizeof(address.sun_path) - 1));
  return address;
}

const sockaddr* Generic(const sockaddr_un& address) {
  return static_cast<const sockaddr*>(static_cast<const void*>(&address));
}

UniqueFd StreamSocket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

}  // namespace

Process::Process(const std::vector<std::string>& argv, const UniqueFd& fd3) {
  std::vector<std::string> copies = argv;
  std::vector<char*> pointers;
  for (std::string& copy : copies) {
    pointers.push_back(copy.data());
  }
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  if (fd3.valid()) {
    ::posix_spawn_file_actions_adddup2(&actions, fd3.get(), 3);
  }
  if (::posix_spawn(&pid_, pointers[0], &actions, nullptr, pointers.data(),
                    environ) != 0) {
    pid_ = -1;
  }
  ::posix_spawn_file_actions_destroy(&actions);
}

Process::~Process() { KillAndWait(); }

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)) {}

Process& Process::operator=(Process&& other) noexcept {
  if (this != &other) {
    KillAndWait();
    pid_ = std::exchange(other.pid_, -1);
  }
  return *this;
}

void Process::Signal(int signal) const {
  if (pid_ > 0) {
    ::kill(pid_, signal);
  }
}

int Process::Wait() {
  int status = 0;
  if (pid_ <= 0 || ::waitpid(pid_, &status, 0) != pid_) {
    return -1;
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void Process::KillAndWait() {
  Signal(SIGKILL);
  Wait();
}

std::vector<std::string> OpenFds(pid_t pid) {
  std::vector<std::string> fds;
  const std::string directory = "/proc/" + std::to_string(pid) + "/fd";
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(directory, error)) {
    std::string link = std::filesystem::read_symlink(entry.path(), error);
    if (error || link.find("/proc/") == 0) {
      continue;
    }
    fds.push_back(link.substr(0, link.find(":[")));
  }
  std::sort(fds.begin(), fds.end());
  return fds;
}

UniqueFd Listen(const std::string& path) {
  UniqueFd fd = StreamSocket();
  const sockaddr_un address = AddressOf(path);
  if (::bind(fd.get(), Generic(address), sizeof(address)) != 0 ||
      ::listen(fd.get(), 16) != 0) {
    return UniqueFd();
  }
  return fd;
}

UniqueFd ConnectNow(const std::string& path) {
  UniqueFd fd = StreamSocket();
  return ConnectUnix(fd.get(), path) == 0 ? std::move(fd) : UniqueFd();
}

UniqueFd ConnectWithin(const std::string& path, int seconds) {
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (std::chrono::steady_clock::now() < end) {
    UniqueFd fd = ConnectNow(path);
    if (fd.valid()) {
      return fd;
    }
    ::poll(nullptr, 0, 5);
  }
  return UniqueFd();
}

}  // namespace mountd::testing
