// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/net_probe.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netdb.h>
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
#include <thread>

namespace mountd::testing {
namespace {

struct Endpoint {
  sockaddr_storage storage = {};
  socklen_t size = 0;
  int family = 0;

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

bool Enter(const char* netns) {
  const UniqueFd home(::open(netns, O_RDONLY | O_CLOEXEC));
  return home.valid() && ::setns(home.get(), CLONE_NEWNET) == 0;
}

// The functions below run in a child that a process with threads may have
// forked. They make system calls only, and never allocate.

using Answer = std::array<char, 64>;

// Returns the peer's address. A socket of both families reports an IPv4 client
// as ::ffff:a.b.c.d.
Answer NameOfPeer(const sockaddr_in6& peer) {
  Answer name{};
  if (IN6_IS_ADDR_V4MAPPED(&peer.sin6_addr)) {
    ::inet_ntop(AF_INET, &peer.sin6_addr.s6_addr[12], name.data(), name.size());
  } else {
    ::inet_ntop(AF_INET6, &peer.sin6_addr, name.data(), name.size());
  }
  return name;
}

Answer AnswerTo(const sockaddr_in6& peer, const char* text) {
  if (*text == '\0') {
    return NameOfPeer(peer);
  }
  Answer answer{};
  std::strncpy(answer.data(), text, answer.size() - 1);
  return answer;
}

void AnswerConnection(int fd, const char* text) {
  sockaddr_in6 peer = {};
  socklen_t size = sizeof(peer);
  const int client =
      ::accept4(fd, reinterpret_cast<sockaddr*>(&peer), &size, SOCK_CLOEXEC);
  if (client >= 0) {
    const Answer answer = AnswerTo(peer, text);
    (void)!::write(client, answer.data(), std::strlen(answer.data()));
    ::close(client);
  }
}

void AnswerDatagram(int fd, const char* text) {
  sockaddr_in6 peer = {};
  socklen_t size = sizeof(peer);
  char byte = 0;
  if (::recvfrom(fd, &byte, 1, 0, reinterpret_cast<sockaddr*>(&peer), &size) >=
      0) {
    const Answer answer = AnswerTo(peer, text);
    (void)!::sendto(fd, answer.data(), std::strlen(answer.data()), 0,
                    reinterpret_cast<const sockaddr*>(&peer), size);
  }
}

[[noreturn]] void Serve(const char* netns, const Endpoint& own,
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
  if (::bind(fd, own.get(), own.size) != 0 || (tcp && ::listen(fd, 16) != 0) ||
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
  const Endpoint to = At(address, port);
  const UniqueFd fd(
      ::socket(to.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!source.empty()) {
    const Endpoint from = At(source, 0);
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
  const Endpoint to = At(address, port);
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
  std::string text;
  std::thread([&] {
    text = Enter(netns.c_str()) ? body() : "no namespace " + netns;
  }).join();
  return text;
}

UniqueFd SocketIn(const std::string& netns, int family, int type,
                  int protocol) {
  const UniqueFd home(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(Enter(netns.c_str())) << netns;
  UniqueFd fd(::socket(family, type | SOCK_CLOEXEC, protocol));
  EXPECT_TRUE(fd.valid());
  EXPECT_EQ(::setns(home.get(), CLONE_NEWNET), 0);
  return fd;
}

Listener::Listener(const std::string& netns, const std::string& address,
                   std::uint16_t port) {
  const Endpoint own = At(address, port);
  fd_ = SocketIn(netns, own.family, SOCK_DGRAM, 0);
  EXPECT_EQ(::bind(fd_.get(), own.get(), own.size), 0) << address;
}

std::string Listener::Hear(int timeout_ms) {
  pollfd wait = {fd_.get(), POLLIN, 0};
  char byte = 0;
  sockaddr_storage peer = {};
  auto* address = reinterpret_cast<sockaddr*>(&peer);
  socklen_t size = sizeof(peer);
  if (::poll(&wait, 1, timeout_ms) != 1 ||
      ::recvfrom(fd_.get(), &byte, 1, 0, address, &size) < 0) {
    return "";
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::getnameinfo(address, size, text.data(), text.size(), nullptr, 0,
                NI_NUMERICHOST);
  return text.data();
}

Server::Server(const std::string& netns, std::uint16_t port, const char* text,
               Transport transport, const char* address) {
  std::array<int, 2> ready{};
  if (::pipe2(ready.data(), O_CLOEXEC) != 0) {
    return;
  }
  const Endpoint own = At(address, port);
  pid_ = ::fork();
  if (pid_ == 0) {
    Serve(netns.c_str(), own, text, transport, ready[1]);
  }
  ::close(ready[1]);
  char byte = 0;
  valid_ = ::read(ready[0], &byte, 1) == 1;
  ::close(ready[0]);
}

Server::~Server() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

}  // namespace mountd::testing
