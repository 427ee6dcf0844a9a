// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "mountd/base/unique_fd.h"

// Tests whether packets get through: servers in network namespaces, and their
// clients.
namespace mountd::testing {

// How long a client waits for an answer that must come, and for one that must
// not.
inline constexpr int kAnswerMs = 5000;
inline constexpr int kNoAnswerMs = 300;

// Returns the text of a TCP server at the address; "" if none is reached in
// time. Connects from `source` if that is not empty.
std::string Ask(const std::string& address, std::uint16_t port,
                int timeout_ms = kAnswerMs, const std::string& source = "");
// Returns the text of a UDP server.
std::string AskUdp(const std::string& address, std::uint16_t port,
                   int timeout_ms = kAnswerMs);
// Asks from the network namespace whose file is `netns`.
std::string AskFrom(const std::string& netns, const std::string& address,
                    std::uint16_t port, int timeout_ms = kAnswerMs);

// Returns the result of `body`, run in a thread that has entered the network
// namespace.
std::string TextFrom(const std::string& netns,
                     const std::function<std::string()>& body);

// Opens a socket (socket(2)) in that network namespace.
UniqueFd SocketIn(const std::string& netns, int family, int type, int protocol);

// Owns a UDP socket in a network namespace, and reports who sends to it.
class Listener {
 public:
  Listener(const std::string& netns, const std::string& address,
           std::uint16_t port);
  // Returns the source address of the next datagram; "" if none comes in time.
  std::string Hear(int timeout_ms = kAnswerMs);

 private:
  UniqueFd fd_;
};

// Owns a process in a network namespace that answers every TCP connection to a
// port, or every UDP datagram, over IPv4 and IPv6. The answer is `text`, or the
// client's address if `text` is "". A server that listens at "::" answers at
// all addresses. The process holds the namespace while it runs. The test may
// have threads.
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
