// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/tcp.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "mountd/base/unique_fd.h"

namespace mountd::testing {
namespace {

struct Endpoint {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
};

Endpoint At(const std::string& address, std::uint16_t port) {
  Endpoint endpoint;
  if (address.find(':') == std::string::npos) {
    sockaddr_in in = {};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    ::inet_pton(AF_INET, address.c_str(), &in.sin_addr);
    std::memcpy(&endpoint.storage, &in, sizeof(in));
    endpoint.size = sizeof(in);
  } else {
    sockaddr_in6 in = {};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(port);
    ::inet_pton(AF_INET6, address.c_str(), &in.sin6_addr);
    std::memcpy(&endpoint.storage, &in, sizeof(in));
    endpoint.size = sizeof(in);
  }
  return endpoint;
}

// In a child: system calls only.
[[noreturn]] void Serve(const std::string& netns, const Endpoint& any,
                        const char* text, int ready) {
  const int home = ::open(netns.c_str(), O_RDONLY | O_CLOEXEC);
  if (::setns(home, CLONE_NEWNET) != 0) {
    ::_exit(1);
  }
  ::close(home);
  const int fd = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(fd, any.get(), any.size) != 0 || ::listen(fd, 16) != 0 ||
      ::write(ready, "x", 1) != 1) {
    ::_exit(2);
  }
  for (;;) {
    const int client = ::accept4(fd, nullptr, nullptr, SOCK_CLOEXEC);
    if (client >= 0) {
      (void)!::write(client, text, std::strlen(text));
      ::close(client);
    }
  }
}

}  // namespace

std::string AskTcp(const std::string& address, std::uint16_t port,
                   int timeout_ms) {
  const Endpoint to = At(address, port);
  const UniqueFd fd(::socket(to.storage.ss_family,
                             SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), to.get(), to.size) != 0 && errno != EINPROGRESS) {
    return "";
  }
  pollfd wait = {fd.get(), POLLIN, 0};
  if (::poll(&wait, 1, timeout_ms) != 1) {
    return "";
  }
  std::array<char, 64> text{};
  const ssize_t size = ::read(fd.get(), text.data(), text.size());
  return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size))
                  : "";
}

TcpServer::TcpServer(const std::string& netns, std::uint16_t port,
                     const char* text) {
  std::array<int, 2> ready{};
  if (::pipe2(ready.data(), O_CLOEXEC) != 0) {
    return;
  }
  const Endpoint any = At("::", port);
  pid_ = ::fork();
  if (pid_ == 0) {
    Serve(netns, any, text, ready[1]);
  }
  ::close(ready[1]);
  char byte = 0;
  valid_ = ::read(ready[0], &byte, 1) == 1;
  ::close(ready[0]);
}

TcpServer::~TcpServer() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

}  // namespace mountd::testing
