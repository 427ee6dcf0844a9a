// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace mountd::testing {

// What a TCP server at the address says, "" if none is reached in time.
std::string AskTcp(const std::string& address, std::uint16_t port,
                   int timeout_ms = 5000);

// A process in the network namespace at `netns` that answers every connection
// to a port, over IPv4 and IPv6, with `text`. While it runs it holds the
// namespace.
class TcpServer {
 public:
  TcpServer(const std::string& netns, std::uint16_t port, const char* text);
  ~TcpServer();
  TcpServer(const TcpServer&) = delete;
  TcpServer& operator=(const TcpServer&) = delete;

  bool valid() const { return valid_; }

 private:
  pid_t pid_ = -1;
  bool valid_ = false;
};

}  // namespace mountd::testing
