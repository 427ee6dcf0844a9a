// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "mountd/base/unique_fd.h"

// Whether packets get through: servers in network namespaces, and who asks
// them.
namespace mountd::testing {

// How long it is waited for an answer that should come, and for one that should
// not.
inline constexpr int kAnswerMs = 5000;
inline constexpr int kNoAnswerMs = 300;

// What a TCP server at the address says, "" if none is reached in time; from
// `source` if that is not empty.
std::string Ask(const std::string& address, std::uint16_t port,
                int timeout_ms = kAnswerMs, const std::string& source = "");
// The same of one of UDP.
std::string AskUdp(const std::string& address, std::uint16_t port,
                   int timeout_ms = kAnswerMs);
// Ask in the network namespace whose file `netns` is.
std::string AskFrom(const std::string& netns, const std::string& address,
                    std::uint16_t port, int timeout_ms = kAnswerMs);

// What `body` returns in a thread that has entered the network namespace.
std::string TextFrom(const std::string& netns,
                     const std::function<std::string()>& body);

// A socket (socket(2)) of that network namespace.
UniqueFd SocketIn(const std::string& netns, int family, int type, int protocol);

// A UDP socket in a network namespace, and who sends to it.
class Listener {
 public:
  Listener(const std::string& netns, const std::string& address,
           std::uint16_t port);
  // The source address of the next datagram, "" if none comes in time.
  std::string Hear(int timeout_ms = kAnswerMs);

 private:
  UniqueFd fd_;
};

// A process in a network namespace that answers every TCP connection to a port,
// or every UDP datagram, over IPv4 and IPv6, with `text`; with "" it answers
// with the client's address. One that listens at "::" does so at all addresses.
// While it runs it holds the namespace. The test may have threads.
class Server {
 public:
  enum class Transport { kTcp, kUdp };
  Server(const std::string& netns, std::uint16_t port, const char* text,
         Transport transport = Transport::kTcp, const char* address = "::");
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  bool valid() const { return valid_; }

 private:
  pid_t pid_ = -1;
  bool valid_ = false;
};

}  // namespace mountd::testing
