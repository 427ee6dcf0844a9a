// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/root/tcp_probe.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
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
  sockaddr_storage storage = {};
  socklen_t size = 0;
  int family = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
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
    endpoint.family = AF_INET;
  } else {
    sockaddr_in6 in = {};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(port);
    ::inet_pton(AF_INET6, address.c_str(), &in.sin6_addr);
    std::memcpy(&endpoint.storage, &in, sizeof(in));
    endpoint.size = sizeof(in);
    endpoint.family = AF_INET6;
  }
  return endpoint;
}

std::string ReadSome(int fd, int timeout_ms) {
  pollfd wait = {fd, POLLIN, 0};
  if (::poll(&wait, 1, timeout_ms) != 1) {
    return "";
  }
  std::array<char, 64> text{};
  const ssize_t size = ::read(fd, text.data(), text.size());
  return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size))
                  : "";
}

// An IPv4 client of a socket of both families is ::ffff:a.b.c.d.
std::string NameOfPeer(const sockaddr_in6& peer) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (IN6_IS_ADDR_V4MAPPED(&peer.sin6_addr)) {
    ::inet_ntop(AF_INET, &peer.sin6_addr.s6_addr[12], text.data(), text.size());
  } else {
    ::inet_ntop(AF_INET6, &peer.sin6_addr, text.data(), text.size());
  }
  return text.data();
}

std::string AnswerTo(const sockaddr_in6& peer, const char* text) {
  return *text != '\0' ? text : NameOfPeer(peer);
}

void AnswerConnection(int fd, const char* text) {
  sockaddr_in6 peer = {};
  socklen_t size = sizeof(peer);
  const int client =
      ::accept4(fd, reinterpret_cast<sockaddr*>(&peer), &size, SOCK_CLOEXEC);
  if (client >= 0) {
    const std::string answer = AnswerTo(peer, text);
    (void)!::write(client, answer.data(), answer.size());
    ::close(client);
  }
}

void AnswerDatagram(int fd, const char* text) {
  sockaddr_in6 peer = {};
  socklen_t size = sizeof(peer);
  char byte = 0;
  if (::recvfrom(fd, &byte, 1, 0, reinterpret_cast<sockaddr*>(&peer), &size) >=
      0) {
    const std::string answer = AnswerTo(peer, text);
    (void)!::sendto(fd, answer.data(), answer.size(), 0,
                    reinterpret_cast<const sockaddr*>(&peer), size);
  }
}

bool Enter(const std::string& netns) {
  const UniqueFd home(::open(netns.c_str(), O_RDONLY | O_CLOEXEC));
  return home.valid() && ::setns(home.get(), CLONE_NEWNET) == 0;
}

[[noreturn]] void Serve(const std::string& netns, std::uint16_t port,
                        const char* text, Server::Transport transport,
                        int ready) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!Enter(netns)) {
    ::_exit(1);
  }
  const bool tcp = transport == Server::Transport::kTcp;
  const int fd =
      ::socket(AF_INET6, (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  Endpoint any = At("::", port);
  if (::bind(fd, any.get(), any.size) != 0 || (tcp && ::listen(fd, 16) != 0) ||
      ::write(ready, "x", 1) != 1) {
    ::_exit(2);
  }
  for (;;) {
    tcp ? AnswerConnection(fd, text) : AnswerDatagram(fd, text);
  }
}

}  // namespace

std::string Ask(const std::string& address, std::uint16_t port, int timeout_ms,
                const std::string& source) {
  Endpoint to = At(address, port);
  const UniqueFd fd(
      ::socket(to.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!source.empty()) {
    Endpoint from = At(source, 0);
    if (::bind(fd.get(), from.get(), from.size) != 0) {
      return "";
    }
  }
  if (::connect(fd.get(), to.get(), to.size) != 0 && errno != EINPROGRESS) {
    return "";
  }
  return ReadSome(fd.get(), timeout_ms);
}

std::string AskUdp(const std::string& address, std::uint16_t port,
                   int timeout_ms) {
  Endpoint to = At(address, port);
  const UniqueFd fd(::socket(to.family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), to.get(), to.size) != 0 ||
      ::send(fd.get(), "x", 1, 0) != 1) {
    return "";
  }
  return ReadSome(fd.get(), timeout_ms);
}

std::string AskFrom(const std::string& netns, const std::string& address,
                    std::uint16_t port, int timeout_ms) {
  return TextFrom(netns, [&] { return Ask(address, port, timeout_ms); });
}

std::string TextFrom(const std::string& netns,
                     const std::function<std::string()>& body) {
  std::array<int, 2> pipe{};
  EXPECT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const UniqueFd out(pipe[0]);
  UniqueFd in(pipe[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string text = Enter(netns) ? body() : "no namespace " + netns;
    const ssize_t written = ::write(in.get(), text.data(), text.size());
    ::_exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  in.reset();
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t size = 0;
       (size = ::read(out.get(), part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(size));
  }
  ::waitpid(child, nullptr, 0);
  return text;
}

Server::Server(const std::string& netns, std::uint16_t port, const char* text,
               Transport transport) {
  std::array<int, 2> ready{};
  EXPECT_EQ(::pipe2(ready.data(), O_CLOEXEC), 0);
  pid_ = ::fork();
  if (pid_ == 0) {
    Serve(netns, port, text, transport, ready[1]);
  }
  ::close(ready[1]);
  char byte = 0;
  EXPECT_EQ(::read(ready[0], &byte, 1), 1) << "the server did not start";
  ::close(ready[0]);
}

Server::~Server() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

}  // namespace mountd::testing
